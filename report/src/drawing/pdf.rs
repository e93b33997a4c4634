//! From SVG to PDF: paths stay paths, and texts stay texts in the parts of their fonts that they use.
//!
//! Only what pictures of this crate are made of is written: paths and texts in plain colours. Anything else is an error. The
//! bytes follow from the picture alone; there is neither a date nor a random number in them.

mod text;

use std::collections::BTreeMap;

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, TextStr};
use resvg::tiny_skia::{Path as Outline, PathSegment, Transform};
use resvg::usvg::{
    BlendMode, Fill, FillRule, Group, LineCap, LineJoin, Node, Paint, PaintOrder, Path, Stroke, Text, Tree,
};

use super::typeset;
use crate::font::FigureFont;
use crate::refusal::NoPicture;
use text::PdfFonts;

/// ObjectNumbers of objects, given away from 1 on.
struct ObjectNumbers(i32);

impl ObjectNumbers {
    fn next(&mut self) -> Ref {
        self.0 += 1;
        Ref::new(self.0)
    }
}

/// Writes an SVG file as a page that is so many points wide.
pub(crate) fn pdf(svg: &str, font: Option<&FigureFont>, title: &str, width: f64) -> Result<Vec<u8>, NoPicture> {
    let tree = typeset::tree(svg, font)?;
    let scale = width as f32 / tree.size().width();
    let height = tree.size().height() * scale;
    let mut page = PdfPage::new(&tree);
    // The y axis of a PDF runs upwards.
    page.content.transform([scale, 0.0, 0.0, -scale, 0.0, height]);
    page.group(tree.root())?;
    let PdfPage { content, opacities, fonts, .. } = page;

    let (mut pdf, mut numbers) = (Pdf::new(), ObjectNumbers(0));
    let [catalog, pages, leaf, stream, info] = std::array::from_fn(|_| numbers.next());
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([leaf]).count(1);
    pdf.document_info(info).title(TextStr(title)).creator(TextStr("rtc"));
    let states: Vec<(Opacities, Ref)> = opacities.keys().map(|key| (*key, numbers.next())).collect();
    let fonts = fonts.write(&mut pdf, &mut numbers)?;
    let mut page = pdf.page(leaf);
    page.parent(pages).media_box(Rect::new(0.0, 0.0, width as f32, height)).contents(stream);
    let mut resources = page.resources();
    let mut named = resources.ext_g_states();
    for (key, state) in &states {
        named.pair(Name(opacities[key].as_bytes()), *state);
    }
    named.finish();
    let mut named = resources.fonts();
    for (name, font) in &fonts {
        named.pair(Name(name.as_bytes()), *font);
    }
    named.finish();
    resources.finish();
    page.finish();
    for ((fill, stroke), state) in states {
        pdf.ext_graphics(state).non_stroking_alpha(share(fill)).stroking_alpha(share(stroke));
    }
    pdf.stream(stream, &deflated(content.finish().as_slice())).filter(Filter::FlateDecode);
    Ok(pdf.finish())
}

/// Opacities of areas and of lines in 255ths, which is as fine as they are seen.
type Opacities = (u8, u8);

fn share(opacity: u8) -> f32 {
    f32::from(opacity) / 255.0
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::default());
    out.write_all(bytes).expect("writing to a vector does not fail");
    out.finish().expect("writing to a vector does not fail")
}

/// The content of a page while it is written.
struct PdfPage<'a> {
    content: Content,
    /// Graphics states by their opacities, with their names.
    opacities: BTreeMap<Opacities, String>,
    fonts: PdfFonts<'a>,
}

impl<'a> PdfPage<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self { content: Content::new(), opacities: BTreeMap::new(), fonts: PdfFonts::new(tree.fontdb()) }
    }

    fn group(&mut self, group: &Group) -> Result<(), NoPicture> {
        let is_plain = group.opacity().get() >= 1.0
            && group.blend_mode() == BlendMode::Normal
            && group.clip_path().is_none()
            && group.mask().is_none()
            && group.filters().is_empty();
        if !is_plain {
            return Err(NoPicture("a group in it is more than a list of elements".to_owned()));
        }
        group.children().iter().try_for_each(|node| match node {
            Node::Group(group) => self.group(group),
            Node::Path(path) => self.path(path),
            Node::Text(text) => self.text(text),
            Node::Image(_) => Err(NoPicture("it holds an image".to_owned())),
        })
    }

    /// Writes an element with a state of its own.
    fn apart(
        &mut self,
        transform: Transform,
        write: impl FnOnce(&mut Self) -> Result<(), NoPicture>,
    ) -> Result<(), NoPicture> {
        self.content.save_state();
        if !transform.is_identity() {
            self.content.transform(matrix(transform));
        }
        write(self)?;
        self.content.restore_state();
        Ok(())
    }

    fn path(&mut self, path: &Path) -> Result<(), NoPicture> {
        if !path.is_visible() {
            return Ok(());
        }
        let (fill, stroke) = (path.fill(), path.stroke());
        self.apart(path.abs_transform(), |page| match path.paint_order() {
            PaintOrder::FillAndStroke => {
                page.area(path.data(), fill)?;
                page.line(path.data(), stroke)
            }
            PaintOrder::StrokeAndFill => {
                page.line(path.data(), stroke)?;
                page.area(path.data(), fill)
            }
        })
    }

    fn area(&mut self, outline: &Outline, fill: Option<&Fill>) -> Result<(), NoPicture> {
        let Some(fill) = fill.filter(|fill| fill.opacity().get() > 0.0) else { return Ok(()) };
        self.fill(fill)?;
        self.outline(outline);
        match fill.rule() {
            FillRule::NonZero => self.content.fill_nonzero(),
            FillRule::EvenOdd => self.content.fill_even_odd(),
        };
        Ok(())
    }

    /// Sets the colour and opacity of areas.
    fn fill(&mut self, fill: &Fill) -> Result<(), NoPicture> {
        let [r, g, b] = colour(fill.paint())?;
        self.content.set_fill_rgb(r, g, b);
        self.opacity((fill.opacity().to_u8(), 255));
        Ok(())
    }

    fn line(&mut self, outline: &Outline, stroke: Option<&Stroke>) -> Result<(), NoPicture> {
        let Some(stroke) = stroke.filter(|stroke| stroke.opacity().get() > 0.0) else { return Ok(()) };
        let [r, g, b] = colour(stroke.paint())?;
        self.opacity((255, stroke.opacity().to_u8()));
        self.content.set_stroke_rgb(r, g, b).set_line_width(stroke.width().get());
        self.content.set_line_cap(match stroke.linecap() {
            LineCap::Butt => LineCapStyle::ButtCap,
            LineCap::Round => LineCapStyle::RoundCap,
            LineCap::Square => LineCapStyle::ProjectingSquareCap,
        });
        self.content.set_line_join(match stroke.linejoin() {
            LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
            LineJoin::Round => LineJoinStyle::RoundJoin,
            LineJoin::Bevel => LineJoinStyle::BevelJoin,
        });
        self.content.set_miter_limit(stroke.miterlimit().get());
        self.content.set_dash_pattern(stroke.dasharray().unwrap_or_default().iter().copied(), stroke.dashoffset());
        self.outline(outline);
        self.content.stroke();
        Ok(())
    }

    fn opacity(&mut self, opacities: Opacities) {
        let next = format!("O{}", self.opacities.len());
        let name = self.opacities.entry(opacities).or_insert(next);
        self.content.set_parameters(Name(name.as_bytes()));
    }

    fn outline(&mut self, outline: &Outline) {
        let mut last = (0.0, 0.0);
        for segment in outline.segments() {
            let content = &mut self.content;
            match segment {
                PathSegment::MoveTo(to) => content.move_to(to.x, to.y),
                PathSegment::LineTo(to) => content.line_to(to.x, to.y),
                PathSegment::QuadTo(by, to) => {
                    // The same curve with two control points.
                    let towards = |from: f32, by: f32| from + (by - from) * 2.0 / 3.0;
                    let (x, y) = last;
                    let first = (towards(x, by.x), towards(y, by.y));
                    content.cubic_to(first.0, first.1, towards(to.x, by.x), towards(to.y, by.y), to.x, to.y)
                }
                PathSegment::CubicTo(a, b, to) => content.cubic_to(a.x, a.y, b.x, b.y, to.x, to.y),
                PathSegment::Close => content.close_path(),
            };
            if let PathSegment::MoveTo(to)
            | PathSegment::LineTo(to)
            | PathSegment::QuadTo(_, to)
            | PathSegment::CubicTo(_, _, to) = segment
            {
                last = (to.x, to.y);
            }
        }
    }

    /// Glyphs as text. A line around them is drawn as paths, so that nobody who copies the text gets it twice.
    fn text(&mut self, text: &Text) -> Result<(), NoPicture> {
        for node in text.flattened().children() {
            if let Node::Path(path) = node
                && path.stroke().is_some()
            {
                self.apart(path.abs_transform(), |page| page.line(path.data(), path.stroke()))?;
            }
        }
        for span in text.layouted().iter().filter(|span| span.visible) {
            let Some(fill) = &span.fill else { continue };
            if span.overline.is_some() || span.underline.is_some() || span.line_through.is_some() {
                return Err(NoPicture("a text in it is underlined or struck out".to_owned()));
            }
            self.apart(text.abs_transform(), |page| {
                page.fill(fill)?;
                page.fonts.show(span, &mut page.content)
            })?;
        }
        Ok(())
    }
}

fn matrix(transform: Transform) -> [f32; 6] {
    let Transform { sx, ky, kx, sy, tx, ty } = transform;
    [sx, ky, kx, sy, tx, ty]
}

fn colour(paint: &Paint) -> Result<[f32; 3], NoPicture> {
    match paint {
        Paint::Color(colour) => Ok([colour.red, colour.green, colour.blue].map(|part| f32::from(part) / 255.0)),
        Paint::LinearGradient(_) | Paint::RadialGradient(_) | Paint::Pattern(_) => {
            Err(NoPicture("a colour in it is a gradient or a pattern".to_owned()))
        }
    }
}
