; What the TextMate grammar of editors/vscode colours, by the tree.
(comment) @comment
(documentation) @comment.documentation
(string) @string
(number) @number
(truth) @boolean

[
  "use" "let" "model" "variant" "of" "mask" "bias" "def" "atomic" "show" "share" "carry" "out" "go" "until" "loss"
  "remove" "replace" "by" "wrap" "in" "add" "after" "before" "untie" "tie"
] @keyword
["and" "or" "not"] @keyword.operator
["==" "!=" "<" "<=" ">" ">=" "+" "-" "*" "/" "%" "^" "="] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "."] @punctuation.delimiter

(model name: (full_name) @type.definition)
(variant name: (name) @type.definition of: (full_name) @type)
(mask name: (name) @function)
(bias name: (name) @function)
(def kind: (name) @type)
(def name: (name) @function)
(params (name) @variable.parameter)
(setting name: (name) @variable.parameter kind: (kind) @type)
(field name: (name) @property)
(set (path) @property)
(statement keyword: (name) @keyword.directive word: (name)? @constant)
(structured keyword: (name) @keyword.directive)
(call name: (name) @function.call)
(learn name: (name) @function.builtin)
((reference) @variable.builtin
  (#match? @variable.builtin "^(step|length|width|i|j|head)$"))
