//! Masks, biases and constants of files, by name.

use std::collections::BTreeMap;

use crate::syntax::ast;

/// The definition of a name that may stand in an expression.
#[derive(Clone, Debug)]
pub(crate) enum NamedExpression {
    /// A constant.
    Let(ast::Let),
    /// A mask or bias.
    Function(ast::FunctionItem),
}

impl NamedExpression {
    pub(crate) fn name(&self) -> &ast::Name {
        match self {
            Self::Let(binding) => &binding.name,
            Self::Function(function) => &function.name,
        }
    }

    /// What it stands for.
    pub(crate) fn body(&self) -> &ast::ExprSyntax {
        match self {
            Self::Let(binding) => &binding.value,
            Self::Function(function) => &function.body,
        }
    }

    /// The item of a file that defines it.
    pub(crate) fn item(&self) -> ast::ItemKind {
        match self {
            Self::Let(binding) => ast::ItemKind::Let(binding.clone()),
            Self::Function(function) => ast::ItemKind::Function(function.clone()),
        }
    }
}

/// The definitions of all names that may stand in expressions.
#[derive(Clone, Debug, Default)]
pub struct NamedExpressions {
    items: BTreeMap<String, NamedExpression>,
}

impl NamedExpressions {
    /// Defines a name that has no definition yet; else gives the one that it has.
    pub(crate) fn define(&mut self, definition: NamedExpression) -> Option<&NamedExpression> {
        let name = definition.name().text.clone();
        if self.items.contains_key(&name) {
            return self.items.get(&name);
        }
        self.items.insert(name, definition);
        None
    }

    /// The definition of a name.
    pub(crate) fn find(&self, name: &str) -> Option<&NamedExpression> {
        self.items.get(name)
    }

    /// Whether the name is a constant.
    pub(crate) fn is_constant(&self, name: &str) -> bool {
        matches!(self.find(name), Some(NamedExpression::Let(_)))
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    /// All masks and biases.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &ast::FunctionItem> {
        self.items.values().filter_map(|definition| match definition {
            NamedExpression::Function(function) => Some(function),
            NamedExpression::Let(_) => None,
        })
    }

    /// Gives constants the values that edits put in their place.
    pub(crate) fn edited(&self, values: &BTreeMap<String, ast::ExprSyntax>) -> Self {
        let mut edited = self.clone();
        for (name, value) in values {
            if let Some(NamedExpression::Let(binding)) = edited.items.get_mut(name) {
                binding.value = value.clone();
            }
        }
        edited
    }
}
