//! Texts of a PDF: runs of glyphs, and the parts of fonts that hold them.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Buf, Content, Filter, Finish, Name, Pdf, Rect, Ref, Str};

use resvg::usvg::fontdb::{Database, ID};
use resvg::usvg::layout::{PositionedGlyph, Span};
use skrifa::instance::{LocationRef, Size};
use skrifa::raw::TableProvider;
use skrifa::{FontRef, GlyphId, MetadataProvider, Tag};
use subsetter::GlyphRemapper;

use super::{ObjectNumbers, deflated, matrix};
use crate::refusal::NoPicture;

/// Glyphs have no numbers but their places in the subset.
const IDENTITY: SystemInfo<'_> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

/// The fonts of a page with the glyphs that it shows.
pub(super) struct PdfFonts<'a> {
    database: &'a Database,
    used: Vec<UsedFont>,
}

/// A face, and the glyphs of it that are shown.
struct UsedFont {
    id: ID,
    /// Units of its outlines to the size.
    units: f32,
    glyphs: GlyphRemapper,
    /// Advances in thousandths of the size, by the number in the subset.
    advances: Vec<f32>,
    /// What is read where a glyph is shown, by its number in the subset.
    texts: BTreeMap<u16, String>,
}

impl<'a> PdfFonts<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        Self { database, used: vec![] }
    }

    /// Shows a span in the current colour, in the coordinates of its text.
    pub(super) fn show(&mut self, span: &Span, content: &mut Content) -> Result<(), NoPicture> {
        content.begin_text();
        let mut rest = span.positioned_glyphs.as_slice();
        while let Some(first) = rest.first() {
            // A run stands on one line: its glyphs have one font and differ in their places along it alone.
            let begin = first.outline_transform();
            let along = |glyph: &&PositionedGlyph| {
                let own = glyph.outline_transform();
                let same = |a: f32, b: f32| (a - b).abs() < 1e-3;
                let straight = same(own.sx, begin.sx) && same(own.kx, 0.0) && same(own.ky, 0.0);
                glyph.font == first.font && straight && same(own.ty, begin.ty)
            };
            let count = 1 + rest.iter().skip(1).take_while(along).count();
            let (run, after) = rest.split_at(count);
            let number = self.number(first.font)?;
            let shown = self.used[number].shown(self.database, run)?;
            self.used[number].run(number, run, &shown, content);
            rest = after;
        }
        content.end_text();
        Ok(())
    }

    /// The number of a face on the page.
    fn number(&mut self, id: ID) -> Result<usize, NoPicture> {
        if let Some(known) = self.used.iter().position(|font| font.id == id) {
            return Ok(known);
        }
        let units =
            with_font(self.database, id, |font, _, _| Ok(f32::from(font.head().map_err(unreadable)?.units_per_em())))?;
        self.used.push(UsedFont {
            id,
            units,
            glyphs: GlyphRemapper::new(),
            advances: vec![0.0],
            texts: BTreeMap::new(),
        });
        Ok(self.used.len() - 1)
    }

    /// Writes the fonts; gives their names on the page.
    pub(super) fn write(&self, pdf: &mut Pdf, numbers: &mut ObjectNumbers) -> Result<Vec<(String, Ref)>, NoPicture> {
        let written = self.used.iter().enumerate();
        written.map(|(number, font)| Ok((name(number), font.write(self.database, pdf, numbers)?))).collect()
    }
}

impl UsedFont {
    /// Takes glyphs into the subset; gives their numbers in it and their advances.
    fn shown(&mut self, database: &Database, run: &[PositionedGlyph]) -> Result<Vec<(u16, f32)>, NoPicture> {
        with_font(database, self.id, |font, _, _| {
            let metrics = font.glyph_metrics(Size::new(1000.0), LocationRef::default());
            let show = |glyph: &PositionedGlyph| {
                let id = u16::try_from(glyph.id.0).map_err(|_| NoPicture("a font has too many glyphs".to_owned()))?;
                let code = self.glyphs.remap(id);
                let advance = metrics.advance_width(GlyphId::new(glyph.id.0)).unwrap_or(0.0);
                if usize::from(code) == self.advances.len() {
                    self.advances.push(advance);
                    self.texts.insert(code, glyph.text.clone());
                }
                Ok((code, advance))
            };
            run.iter().map(show).collect()
        })
    }

    /// Shows glyphs of a line.
    fn run(&self, number: usize, run: &[PositionedGlyph], shown: &[(u16, f32)], content: &mut Content) {
        let Some(first) = run.first() else { return };
        let size = first.font_size();
        let begin = first.outline_transform().pre_scale(self.units / size, self.units / size);
        content.set_font(Name(name(number).as_bytes()), size);
        content.set_text_matrix(matrix(begin));
        let mut line = content.show_positioned();
        let mut items = line.items();
        // Thousandths of the size from the begin of the run, where a viewer stands by the advances alone.
        let mut reached: f32 = 0.0;
        for (glyph, (code, advance)) in run.iter().zip(shown) {
            let place = (glyph.outline_transform().tx - begin.tx) / (begin.sx * size) * 1000.0;
            let back = (reached - place).round();
            if back != 0.0 {
                items.adjust(back);
                reached -= back;
            }
            items.show(Str(&code.to_be_bytes()));
            reached += advance;
        }
    }

    /// Writes the part of the font that is shown.
    fn write(&self, database: &Database, pdf: &mut Pdf, numbers: &mut ObjectNumbers) -> Result<Ref, NoPicture> {
        let [font, cid, descriptor, cmap, file] = std::array::from_fn(|_| numbers.next());
        let post_script = database.face(self.id).map_or_else(String::new, |face| face.post_script_name.clone());
        let base = format!("{}+{post_script}", self.tag());
        let base = Name(base.as_bytes());
        with_font(database, self.id, |face, data, index| {
            let subset = subsetter::subset(data, index, &self.glyphs);
            let subset = subset.map_err(|error| NoPicture(format!("a font can't be cut down: {error}")))?;
            let compact = FontRef::new(&subset).ok().and_then(|font| font.table_data(Tag::new(b"CFF ")));
            let (kind, bytes) = match &compact {
                Some(table) => (CidFontType::Type0, table.as_bytes()),
                None => (CidFontType::Type2, subset.as_slice()),
            };
            let packed = deflated(bytes);
            let mut stream = pdf.stream(file, &packed);
            stream.filter(Filter::FlateDecode);
            match compact {
                Some(_) => stream.pair(Name(b"Subtype"), Name(b"CIDFontType0C")),
                None => stream.pair(Name(b"Length1"), bytes.len() as i32),
            };
            stream.finish();
            pdf.type0_font(font)
                .base_font(base)
                .encoding_predefined(Name(b"Identity-H"))
                .descendant_font(cid)
                .to_unicode(cmap);
            let mut written = pdf.cid_font(cid);
            written.subtype(kind).base_font(base).system_info(IDENTITY).font_descriptor(descriptor).default_width(0.0);
            if compact.is_none() {
                written.cid_to_gid_map_predefined(Name(b"Identity"));
            }
            written.widths().consecutive(0, self.advances.iter().copied());
            written.finish();
            self.describe(face, pdf, (descriptor, base, file), compact.is_some());
            Ok(())
        })?;
        pdf.stream(cmap, &deflated(self.unicode().as_slice())).filter(Filter::FlateDecode);
        Ok(font)
    }

    /// What a viewer needs to know of the face besides its glyphs.
    fn describe(&self, face: &FontRef<'_>, pdf: &mut Pdf, (id, base, file): (Ref, Name<'_>, Ref), compact: bool) {
        let metrics = face.metrics(Size::new(1000.0), LocationRef::default());
        let bounds = metrics.bounds.unwrap_or_default();
        let mut descriptor = pdf.font_descriptor(id);
        descriptor
            .name(base)
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max))
            .italic_angle(metrics.italic_angle)
            .ascent(metrics.ascent)
            .descent(metrics.descent)
            .cap_height(metrics.cap_height.unwrap_or(metrics.ascent))
            // No font tells how thick its stems are; a viewer that has the outlines does not ask.
            .stem_v(80.0);
        match compact {
            true => descriptor.font_file3(file),
            false => descriptor.font_file2(file),
        };
    }

    fn unicode(&self) -> Buf {
        let mut cmap = UnicodeCmap::new(Name(b"Custom"), IDENTITY);
        for (code, text) in self.texts.iter().filter(|(_, text)| !text.is_empty()) {
            cmap.pair_with_multiple(*code, text.chars());
        }
        cmap.finish()
    }

    /// Six letters that tell parts of one font apart.
    fn tag(&self) -> String {
        let mixed = |sum: u64, glyph: u16| (sum ^ u64::from(glyph)).wrapping_mul(0x0100_0000_01b3);
        let mut sum = self.glyphs.remapped_gids().fold(0xcbf2_9ce4_8422_2325, mixed);
        let letter = |_| {
            let letter = char::from(b'A' + (sum % 26) as u8);
            sum /= 26;
            letter
        };
        (0..6).map(letter).collect()
    }
}

fn name(number: usize) -> String {
    format!("F{number}")
}

/// Reads a face of the database.
fn with_font<T>(
    database: &Database,
    id: ID,
    read: impl FnOnce(&FontRef<'_>, &[u8], u32) -> Result<T, NoPicture>,
) -> Result<T, NoPicture> {
    let found = database.with_face_data(id, |data, index| {
        let font = FontRef::from_index(data, index).map_err(unreadable)?;
        read(&font, data, index)
    });
    found.unwrap_or_else(|| Err(NoPicture("a font has gone".to_owned())))
}

fn unreadable(error: skrifa::raw::ReadError) -> NoPicture {
    NoPicture(format!("a font can't be read: {error}"))
}
