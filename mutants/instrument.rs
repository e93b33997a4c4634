//! Puts all mutants of a file into it, each behind a question: `if crate::mutant(7) { a - b } else { a + b }`. One build has them all;
//! the variable `RTC_MUTANT` chooses one when a test runs.

use std::collections::BTreeSet;

use proc_macro2::Span;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, Ident, ImplItemFn, ItemFn, ItemMod, Lit, Pat, PatGuard, ReturnType, Signature,
    Token, Type,
};

/// One fault.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// What `RTC_MUTANT` calls it.
    pub id: u32,
    /// The line of the file as it was.
    pub line: usize,
    /// The function that it is in.
    pub function: String,
    /// What it does.
    pub does: String,
}

/// The file with its mutants, numbered from `first`; those of `left_out` have numbers and nothing else: they do not compile.
pub fn instrument(text: &str, first: u32, left_out: &BTreeSet<u32>) -> syn::Result<(String, Vec<Mutant>)> {
    let mut file = syn::parse_file(text)?;
    let mut mutator = Mutator { next: first, left_out, function: String::new(), found: vec![] };
    mutator.visit_file_mut(&mut file);
    Ok((prettyplease::unparse(&file), mutator.found))
}

struct Mutator<'a> {
    next: u32,
    left_out: &'a BTreeSet<u32>,
    function: String,
    found: Vec<Mutant>,
}

impl Mutator<'_> {
    /// A number for a mutant, `None` where it is left out.
    fn number(&mut self, span: Span, does: String) -> Option<u32> {
        let id = self.next;
        self.next += 1;
        if self.left_out.contains(&id) {
            return None;
        }
        self.found.push(Mutant { id, line: span.start().line, function: self.function.clone(), does });
        Some(id)
    }

    /// `e`, or one of the alternatives.
    fn either(&mut self, span: Span, e: Expr, alternatives: Vec<(String, Expr)>) -> Expr {
        let mut out = e.to_token_stream();
        for (does, other) in alternatives {
            if let Some(id) = self.number(span, does) {
                out = quote!(if crate::mutant(#id) { #other } else { #out });
            }
        }
        syn::parse2(quote!((#out))).expect("an expression in brackets is one")
    }

    /// The body behind questions for what it gives instead.
    fn body(&mut self, sig: &Signature, block: &mut Block) {
        if sig.constness.is_some() {
            return;
        }
        let outer = std::mem::replace(&mut self.function, sig.ident.to_string());
        visit_mut::visit_block_mut(self, block);
        for value in instead(&sig.output) {
            let span = sig.ident.span();
            if let Some(id) = self.number(span, format!("the function gives {}", plain(&value))) {
                block.stmts.insert(0, syn::parse_quote!(if crate::mutant(#id) { return #value; }));
            }
        }
        self.function = outer;
    }
}

impl VisitMut for Mutator<'_> {
    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if !of_tests(&module.attrs) {
            visit_mut::visit_item_mod_mut(self, module);
        }
    }

    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        if !of_tests(&item.attrs) {
            self.body(&item.sig, &mut item.block);
        }
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        self.body(&item.sig, &mut item.block);
    }

    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_item_macro_mut(&mut self, item: &mut syn::ItemMacro) {
        if item.mac.path.is_ident("rules")
            && let Ok(mut rules) = syn::parse2::<Rules>(item.mac.tokens.clone())
        {
            for rule in &mut rules.0 {
                self.rule(rule);
            }
            item.mac.tokens = rules.to_token_stream();
        }
    }

    fn visit_macro_mut(&mut self, mac: &mut syn::Macro) {
        let elements = Punctuated::<Expr, Token![,]>::parse_terminated;
        if mac.path.is_ident("vec")
            && let Ok(mut elements) = elements.parse2(mac.tokens.clone())
        {
            for e in &mut elements {
                self.visit_expr_mut(e);
            }
            mac.tokens = elements.to_token_stream();
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        self.visit_expr_mut(&mut arm.body);
        let Pat::Guard(guarded) = &mut arm.pat else { return };
        let guard = &mut *guarded.guard;
        if binds(guard) {
            return;
        }
        let (span, text) = (guard.span(), plain(guard));
        self.visit_expr_mut(guard);
        let constants = [true, false].map(|b| (format!("the guard `{text}` is {b}"), syn::parse_quote!(#b)));
        *guard = self.either(span, guard.clone(), constants.into());
    }

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let plain_one = e.clone();
        match e {
            // A condition that binds names has no other form.
            Expr::If(it) if binds(&it.cond) => {
                self.visit_block_mut(&mut it.then_branch);
                if let Some((_, otherwise)) = &mut it.else_branch {
                    self.visit_expr_mut(otherwise);
                }
            }
            Expr::While(it) if binds(&it.cond) => self.visit_block_mut(&mut it.body),
            Expr::Let(it) => self.visit_expr_mut(&mut it.expr),
            Expr::Repeat(it) => self.visit_expr_mut(&mut it.expr),
            Expr::Binary(binary) => {
                let span = binary.op.span();
                let from = plain(&binary.op);
                let alternatives: Vec<(String, Expr)> = others(&binary.op)
                    .into_iter()
                    .map(|op| {
                        let does = format!("`{from}` is `{}`", plain(&op));
                        let mut other = plain_one.clone();
                        if let Expr::Binary(other) = &mut other {
                            other.op = op;
                        }
                        (does, other)
                    })
                    .collect();
                visit_mut::visit_expr_binary_mut(self, binary);
                *e = self.either(span, e.clone(), alternatives);
            }
            Expr::Unary(unary) if !matches!(unary.op, syn::UnOp::Deref(_)) => {
                let (span, does) = (unary.op.span(), format!("without `{}`", plain(&unary.op)));
                let inner = match &plain_one {
                    Expr::Unary(it) => (*it.expr).clone(),
                    _ => return,
                };
                visit_mut::visit_expr_unary_mut(self, unary);
                *e = self.either(span, e.clone(), vec![(does, inner)]);
            }
            Expr::Lit(literal) => {
                let alternatives = match &literal.lit {
                    Lit::Bool(b) => {
                        let other = !b.value;
                        vec![(format!("{} is {other}", b.value), syn::parse_quote!(#other))]
                    }
                    _ => vec![],
                };
                if !alternatives.is_empty() {
                    *e = self.either(literal.span(), e.clone(), alternatives);
                }
            }
            // Which operand a rule means.
            Expr::Index(index) => {
                visit_mut::visit_expr_mut(self, &mut index.expr);
                match &*index.index {
                    Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_)) => {
                        let (at, base) = (literal.clone(), plain_one.clone());
                        let Expr::Index(mut other) = base else { return };
                        let Lit::Int(number) = &at.lit else { return };
                        let other_number: usize = if number.base10_digits() == "0" { 1 } else { 0 };
                        *other.index = syn::parse_quote!(#other_number);
                        let does = format!("index {number} is {other_number}");
                        // A place may be written to or borrowed: only what is read whole is left, the check finds the others.
                        *e = self.either(at.span(), e.clone(), vec![(does, Expr::Index(other))]);
                    }
                    _ => visit_mut::visit_expr_mut(self, &mut index.index),
                }
            }
            Expr::Assign(assign) => self.visit_expr_mut(&mut assign.right),
            // What is borrowed is a place, and stays one.
            Expr::Reference(reference)
                if matches!(*reference.expr, Expr::Index(_) | Expr::Field(_) | Expr::Path(_)) => {}
            Expr::Match(it) => {
                self.visit_expr_mut(&mut it.expr);
                for arm in &mut it.arms {
                    self.visit_arm_mut(arm);
                }
                let Some(last) = it.arms.last() else { return };
                if !matches!(last.pat, Pat::Wild(_)) {
                    return;
                }
                let all = it.arms.len() - 1;
                for arm in it.arms.iter_mut().take(all) {
                    let span = arm.pat.span();
                    let does = format!("without the arm `{}`", plain(&arm.pat));
                    match &mut arm.pat {
                        Pat::Guard(guarded) if binds(&guarded.guard) => {}
                        Pat::Guard(guarded) => {
                            if let Some(id) = self.number(span, does) {
                                let guard = &guarded.guard;
                                *guarded.guard = syn::parse_quote!(!crate::mutant(#id) && #guard);
                            }
                        }
                        pat => {
                            if let Some(id) = self.number(span, does) {
                                *pat = Pat::Guard(PatGuard {
                                    attrs: vec![],
                                    pat: Box::new(pat.clone()),
                                    if_token: Token![if](span),
                                    guard: Box::new(syn::parse_quote!(!crate::mutant(#id))),
                                });
                            }
                        }
                    }
                }
            }
            _ => visit_mut::visit_expr_mut(self, e),
        }
    }
}

impl Mutator<'_> {
    /// A gradient rule: it has no gradient, or another one.
    fn rule(&mut self, rule: &mut Rule) {
        let outer = std::mem::replace(&mut self.function, rule.name.to_string());
        self.visit_expr_mut(&mut rule.gradients);
        let node = &rule.arguments[1];
        let none: Expr = syn::parse_quote!(vec![None; #node.operands.len()]);
        rule.gradients = self.either(rule.name.span(), rule.gradients.clone(), vec![("no gradient".to_owned(), none)]);
        self.function = outer;
    }
}

/// What `rules!` of the gradients takes.
struct Rules(Vec<Rule>);

struct Rule {
    attributes: Vec<Attribute>,
    name: Ident,
    arguments: Vec<Ident>,
    gradients: Expr,
}

impl Parse for Rules {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut rules = vec![];
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            let name = input.parse()?;
            let inner;
            syn::parenthesized!(inner in input);
            let arguments = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?.into_iter().collect();
            input.parse::<Token![=>]>()?;
            let gradients = input.parse()?;
            input.parse::<Token![;]>()?;
            rules.push(Rule { attributes, name, arguments, gradients });
        }
        Ok(Rules(rules))
    }
}

impl ToTokens for Rules {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        for Rule { attributes, name, arguments, gradients } in &self.0 {
            tokens.extend(quote!(#(#attributes)* #name(#(#arguments),*) => #gradients;));
        }
    }
}

/// The text of a piece of code on one line.
fn plain(code: &impl ToTokens) -> String {
    code.to_token_stream().to_string()
}

fn of_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|a| a.path().is_ident("test") || (a.path().is_ident("cfg") && plain(&a.meta).contains("test")))
}

/// Whether a condition has a `let`.
fn binds(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

/// The operators that may stand in the place of one.
const OPERATORS: &[(&str, &[&str])] = &[
    ("+", &["-", "*"]),
    ("-", &["+", "/"]),
    ("*", &["+", "/"]),
    ("/", &["*", "%"]),
    ("%", &["/", "+"]),
    ("+=", &["-=", "*="]),
    ("-=", &["+=", "/="]),
    ("*=", &["+=", "/="]),
    ("/=", &["*=", "%="]),
    ("==", &["!="]),
    ("!=", &["=="]),
    ("<", &["<=", ">", "=="]),
    (">", &[">=", "<", "=="]),
    ("<=", &[">", "<"]),
    (">=", &["<", ">"]),
    ("&&", &["||"]),
    ("||", &["&&"]),
    ("&", &["|", "^"]),
    ("|", &["&", "^"]),
    ("^", &["&", "|"]),
    ("<<", &[">>"]),
    (">>", &["<<"]),
    ("&=", &["|="]),
    ("|=", &["&="]),
];

fn others(op: &BinOp) -> Vec<BinOp> {
    let of = OPERATORS.iter().find(|(from, _)| *from == plain(op));
    of.into_iter().flat_map(|(_, to)| *to).map(|to| syn::parse_str(to).expect("an operator")).collect()
}

/// What a function may give instead, by its type.
fn instead(output: &ReturnType) -> Vec<Expr> {
    match output {
        ReturnType::Default => vec![syn::parse_quote!(())],
        ReturnType::Type(_, ty) => values(ty),
    }
}

fn values(ty: &Type) -> Vec<Expr> {
    match ty {
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec![syn::parse_quote!(())],
        Type::Path(path) if path.qself.is_none() => {
            let Some(last) = path.path.segments.last() else { return vec![] };
            let inner = match &last.arguments {
                syn::PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|a| match a {
                    syn::GenericArgument::Type(ty) => Some(ty.clone()),
                    _ => None,
                }),
                _ => None,
            };
            match last.ident.to_string().as_str() {
                "bool" => vec![syn::parse_quote!(true), syn::parse_quote!(false)],
                "usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => {
                    vec![syn::parse_quote!(0), syn::parse_quote!(1)]
                }
                "f32" | "f64" => vec![syn::parse_quote!(0.0), syn::parse_quote!(1.0)],
                "String" => vec![syn::parse_quote!(String::new())],
                "Vec" => vec![syn::parse_quote!(vec![])],
                "Out" => vec![syn::parse_quote!(vec![None; node.operands.len()])],
                "Option" => {
                    let mut all: Vec<Expr> = vec![syn::parse_quote!(None)];
                    all.extend(inner.iter().flat_map(values).map(|v| -> Expr { syn::parse_quote!(Some(#v)) }));
                    all
                }
                "Result" => inner.iter().flat_map(values).map(|v| syn::parse_quote!(Ok(#v))).collect(),
                _ => vec![],
            }
        }
        _ => vec![],
    }
}
