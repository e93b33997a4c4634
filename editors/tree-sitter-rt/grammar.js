/**
 * The grammar of `.rt` files for tree-sitter, rule by rule that of `grammar/rt.pest`. A word of the language is also a name wherever a
 * name stands, as there; where both readings fit, the word wins.
 */

const list = (rule, by) => seq(rule, repeat(seq(by, rule)))
const maybe_list = (rule, by) => optional(list(rule, by))

/** Words that begin or join something. `and`, `or`, `not` are no names. */
const WORDS = [
  'use', 'let', 'model', 'variant', 'of', 'mask', 'bias', 'score', 'def', 'atomic', 'show', 'share', 'carry', 'out', 'go', 'until', 'loss',
  'remove', 'replace', 'by', 'wrap', 'in', 'add', 'after', 'before', 'untie', 'tie',
]

const braces = ($, element) =>
  seq('{', repeat($._line), repeat(seq(element, choice(',', $._line), repeat($._line))), optional(element), '}')

/** From the loosest to the tightest, as the compiler reads them; `not` stands at 3, a sign at 7. */
const OPERATORS = [
  [1, prec.left, 'or'],
  [2, prec.left, 'and'],
  [4, prec.left, '==', '!=', '<', '<=', '>', '>='],
  [5, prec.left, '+', '-'],
  [6, prec.left, '*', '/', '%'],
  [8, prec.right, '^'],
]

module.exports = grammar({
  name: 'rt',
  // Line breaks separate, so they are no white space.
  extras: $ => [/[ \t\r]/, $.comment, $.documentation],
  word: $ => $.word,
  supertypes: $ => [$._item, $._element, $._def_element, $._edit, $._primary],
  conflicts: $ => [
    [$.equation, $.statement], [$.statement], [$.out], [$.component, $._primary],
    ...['let', 'show', 'carry', 'share', 'out', 'go', 'until', 'loss', 'remove', 'add', 'replace', 'wrap', 'untie', 'tie'].map(word => [$[word], $.name]),
  ],

  rules: {
    file: $ => seq(repeat(choice($._line, seq($._item, $._line))), optional($._item)),

    _item: $ => choice($.use, $.let, $.model, $.variant, $.mask, $.bias, $.score, $.def),
    use: $ => seq('use', $.string),
    let: $ => seq('let', field('name', $.name), '=', $._expr),
    model: $ => seq('model', field('name', $.full_name), $.body),
    variant: $ => seq('variant', field('name', $.name), 'of', field('of', $.full_name), $.edits),
    mask: $ => seq('mask', field('name', $.name), optional($.params), '=', $._expr),
    bias: $ => seq('bias', field('name', $.name), optional($.params), '=', $._expr),
    score: $ => seq('score', field('name', $.name), optional($.params), '=', $._expr),
    def: $ => seq(optional('atomic'), 'def', optional(field('kind', $.name)), field('name', $.name), $.params, $.def_body),
    full_name: $ => seq($.name, optional(seq(':', $.name))),
    params: $ => seq('(', maybe_list($.name, ','), ')'),

    body: $ => braces($, $._element),
    _element: $ => choice($.let, $.go, $.until, $.loss, $.field, $.show, $.carry, $.share, $.equation, $.statement),
    field: $ => seq(field('name', $.name), ':', $._value),
    statement: $ => seq(field('keyword', $.name), optional(choice($.number, field('word', $.name))), optional($.body)),

    def_body: $ => braces($, $._def_element),
    _def_element: $ => choice($.let, $.show, $.carry, $.share, $.out, $.go, $.until, $.loss, $.equation, $.setting, $.statement),
    setting: $ => seq(field('name', $.name), ':', field('kind', $.kind), optional(seq('=', $._value))),
    kind: $ => seq($.name, optional($.arguments)),
    equation: $ => seq(list(field('name', $.name), ','), '=', $._expr),
    show: $ => seq('show', field('name', $.name), '=', $._expr),
    carry: $ => seq('carry', field('name', $.name), '=', $._expr),
    share: $ => seq('share', field('name', $.name), '=', $._value),
    out: $ => prec.dynamic(1, seq('out', list($._expr, ','))),
    go: $ => prec.dynamic(1, seq('go', $._expr)),
    until: $ => prec.dynamic(1, seq('until', $._expr)),
    loss: $ => prec.dynamic(1, seq('loss', $._expr)),

    _value: $ => choice($.structured, $._expr),
    structured: $ => seq(field('keyword', $.name), $.body),

    edits: $ => braces($, $._edit),
    _edit: $ => choice($.remove, $.add, $.replace, $.wrap, $.untie, $.tie, $.let, $.set, $.assign, $.statement),
    _bound: $ => choice($.show, $.carry, $.share, $.go, $.until, $.loss, $.equation),
    remove: $ => seq('remove', $.path),
    add: $ => seq('add', choice($._bound, $.statement), choice('after', 'before'), $.path),
    replace: $ => seq('replace', $.path, 'by', choice($._bound, $.statement)),
    wrap: $ => seq('wrap', $.path, 'in', $.statement),
    untie: $ => seq('untie', $.path),
    tie: $ => seq('tie', $.path),
    set: $ => seq($.path, ':', $._value),
    assign: $ => seq($.path, '=', $._value),
    path: $ => list($.component, '.'),
    component: $ => seq($.name, optional(seq('[', $.number, ']'))),

    _expr: $ => choice($.binary, $.unary, $._primary),
    binary: $ => choice(...OPERATORS.map(([level, side, ...words]) =>
      side(level, seq(field('left', $._expr), field('operator', words.length > 1 ? choice(...words) : words[0]), field('right', $._expr))))),
    unary: $ => choice(prec(3, seq('not', $._expr)), prec(7, seq('-', $._expr))),
    _primary: $ => choice($.number, $.truth, $.learn, $.call, $.read, $.old, $.reference, $.group),
    old: $ => seq($.component, repeat1(seq('.', $.component))),
    group: $ => seq('(', $._expr, ')'),
    call: $ => seq(field('name', $.name), optional($.index), $.arguments, optional($.body)),
    index: $ => seq('[', $._expr, ']'),
    read: $ => seq(field('name', $.name), '[', $._expr, repeat(seq(',', $._expr)), ']'),
    arguments: $ => seq('(', maybe_list($._expr, ','), ')'),
    learn: $ => seq(field('name', alias(/learn(_[A-Za-z0-9_]+)?/, $.name)), '[', maybe_list($._expr, ','), ']', optional($.body)),
    reference: $ => $.name,

    _line: $ => '\n',

    name: $ => choice($.word, ...WORDS.map(word => alias(word, $.word))),
    word: $ => /[A-Za-z_][A-Za-z0-9_]*/,
    number: $ => /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/,
    truth: $ => choice('true', 'false'),
    string: $ => /"[^"\n]*"/,
    documentation: $ => token(prec(1, /\/\/\/[^\n]*/)),
    comment: $ => token(/\/\/[^\n]*/),
  },
})
