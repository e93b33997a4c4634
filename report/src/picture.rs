//! A finished picture, and the ways to give it away.

use serde_json::Value;

use crate::drawing;
use crate::refusal::NoPicture;
use crate::style::FigureStyle;
use crate::svg::{Svg, at, escape};
use crate::theme;

/// A picture in classes instead of colours.
#[derive(Clone, Debug)]
pub struct Picture {
    /// A name for its file: lower-case letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// What it shows.
    pub title: String,
    width: f64,
    height: f64,
    body: String,
    data: Option<String>,
    style: FigureStyle,
}

impl Picture {
    /// A picture of this size, in units. The name may be anything.
    ///
    /// A picture is as wide as its style asks; one that needs more than that is drawn smaller.
    pub(crate) fn new(name: &str, title: &str, (width, height): (f64, f64), svg: Svg, style: &FigureStyle) -> Self {
        Self {
            name: file_name(name),
            title: title.to_owned(),
            width: style.asked().map_or_else(|| width.ceil(), |asked| asked.max(width)),
            height: height.ceil(),
            body: svg.finish(),
            data: None,
            style: style.clone(),
        }
    }

    /// The picture under another name, which may be anything.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: file_name(name), ..self }
    }

    /// The picture with the data that it was drawn from.
    pub(crate) fn with_data(self, data: &Value) -> Self {
        // Nothing in it ends a script of HTML or begins an element of XML.
        let data = data.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        Self { data: Some(data), ..self }
    }

    /// The figure of a page, which draws it again from its data where scripts run.
    pub(crate) fn figure(&self) -> String {
        let script = |data| format!("<script type=\"application/json\">{data}</script>");
        let data = self.data.as_ref().map(script).unwrap_or_default();
        format!("<figure data-name=\"{}\">\n{}{data}</figure>\n", self.name, self.inline())
    }

    /// The element for a page that has the style sheet of pictures. It gets narrower with the page.
    pub fn inline(&self) -> String {
        let Self { width, height, body, .. } = self;
        format!(
            "<svg class=\"picture\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
            escape(&self.title)
        )
    }

    /// A file of its own, in light colours.
    pub fn file(&self) -> String {
        let Self { width, height, body, style, .. } = self;
        let length = |length: f64| match style.is_on_paper() {
            true => format!("{:.3}pt", length * self.unit()),
            false => length.to_string(),
        };
        let (viewed, across, up) = (at(*width), length(*width), length(*height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" viewBox=\"0 0 {viewed} {height}\" width=\"{across}\" \
             height=\"{up}\">\n<title>{}</title>\n<style>\n{}</style>\n<rect class=\"paper\" width=\"{viewed}\" \
             height=\"{height}\"/>\n{body}</svg>\n",
            escape(&self.title),
            theme::light(style.font.as_ref().map(|font| font.family())),
        )
    }

    /// The file as a PNG: with two pixels per unit, or with 300 per inch where the style asks for a size.
    ///
    /// # Errors
    /// A picture that is too large for memory.
    pub fn png(&self) -> Result<Vec<u8>, NoPicture> {
        drawing::png(&self.file(), self.style.font.as_deref(), self.style.pixels(self.width, self.unit()))
    }

    /// The file as a PDF of one page, with texts in the parts of their fonts that they use.
    ///
    /// # Errors
    /// A program without the feature `pictures`.
    pub fn pdf(&self) -> Result<Vec<u8>, NoPicture> {
        drawing::pdf(&self.file(), self.style.font.as_deref(), &self.title, self.width * self.unit())
    }

    /// Points of a unit.
    fn unit(&self) -> f64 {
        self.style.width.map_or(self.style.unit(), |points| points / self.width)
    }
}

/// A name that is one on every system.
fn file_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
    let name: String = text.chars().map(plain).take(100).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
