//! Figures for papers: PDF files, widths, sizes and fonts.

use rtc_report::{FigureFont, FigureStyle, Picture, pictures};

use crate::{model, report, run};

/// Every picture of a run and its model.
fn drawn(style: &FigureStyle) -> Vec<Picture> {
    pictures(&report(vec![run("one", 70)], vec![model("small")]), style)
}

#[track_caller]
fn named<'a>(all: &'a [Picture], name: &str) -> &'a Picture {
    all.iter().find(|picture| picture.name == name).expect(name)
}

/// The sides of the only page in points, and the text on it.
#[track_caller]
fn read(pdf: &[u8]) -> ([f64; 2], String) {
    let read = lopdf::Document::load_mem(pdf).expect("a PDF");
    let pages = read.get_pages();
    let [(number, page)] = pages.iter().collect::<Vec<_>>()[..] else { panic!("{} pages", pages.len()) };
    let page = read.get_dictionary(*page).expect("a page");
    let sides = page.get(b"MediaBox").and_then(|sides| sides.as_array()).expect("a list");
    let sides: Vec<f64> = sides.iter().map(|side| f64::from(side.as_float().expect("a number"))).collect();
    ([sides[2] - sides[0], sides[3] - sides[1]], read.extract_text(&[*number]).expect("text"))
}

#[test]
fn a_pdf_has_the_size_and_the_texts_of_its_picture() {
    let all = drawn(&FigureStyle::default());
    assert!(all.len() > 8);
    for picture in &all {
        let pdf = picture.pdf().expect("it can be drawn");
        assert!(pdf.starts_with(b"%PDF-1."), "{}", picture.name);
        assert_eq!(picture.pdf().expect("again"), pdf, "{} has the same bytes each time", picture.name);
        let ([width, _], text) = read(&pdf);
        let (_, svg) =
            picture.inline().split_once("width=\"").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a width");
        let pixels: f64 = svg.split('"').next().and_then(|width| width.parse().ok()).expect("a number");
        assert!((width - 0.75 * pixels).abs() < 0.01, "{}: {width} of {pixels}", picture.name);
        assert!(text.contains(&picture.title), "{}: {text}", picture.name);
    }
    let (_, text) = read(&named(&all, "accuracy_by_length").pdf().expect("a chart"));
    for part in ["length (tokens)", "accuracy (%)", "a guess among 4 classes"] {
        assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
    }
}

#[test]
fn a_figure_is_as_wide_as_it_is_asked_to_be() {
    for (millimetres, size) in [(84.0, 8.0), (174.0, 8.0), (174.0, 10.0)] {
        let points = millimetres / 25.4 * 72.0;
        let all = drawn(&FigureStyle { width: Some(points), size, font: None });
        for picture in &all {
            let ([width, _], _) = read(&picture.pdf().expect("it can be drawn"));
            assert!((width - points).abs() < 0.01, "{}: {width} in place of {points}", picture.name);
            assert!(picture.file().contains(&format!("width=\"{points:.3}pt\"")), "{}", picture.name);
        }
        // A label has 12 units, whatever the width: so many units are as wide as the column.
        let chart = named(&all, "loss").file();
        let units = format!("viewBox=\"0 0 {} ", (points * 12.0 / size * 10.0).round() / 10.0);
        assert!(chart.contains(&units), "{units} in {chart}");
    }
}

#[test]
fn a_narrow_column_has_fewer_ticks_and_whole_texts() {
    let wide = drawn(&FigureStyle { width: Some(500.0), size: 8.0, font: None });
    let narrow = drawn(&FigureStyle { width: Some(200.0), size: 8.0, font: None });
    let ticks = |all: &[Picture]| named(all, "loss").inline().matches("class=\"tick\"").count();
    assert!(ticks(&narrow) < ticks(&wide), "{} and {}", ticks(&narrow), ticks(&wide));
    insta::assert_snapshot!("column-loss", named(&narrow, "loss").inline());
    insta::assert_snapshot!("column-halting-small-1", named(&narrow, "halting-small-1").inline());
}

/// Nothing is drawn outside of a narrow picture, as far as numbers tell.
#[test]
fn nothing_stands_beside_a_column() {
    let all = drawn(&FigureStyle { width: Some(220.0), size: 8.0, font: None });
    for picture in &all {
        let svg = picture.inline();
        let places = svg.split(" x=\"").skip(1).map(|rest| rest.split('"').next().expect("a place"));
        let places: Vec<f64> = places.map(|place| place.parse().expect("a number")).collect();
        assert!(places.iter().all(|x| (0.0..=330.0).contains(x)), "{}: {places:?}", picture.name);
    }
}

#[test]
fn another_font_is_used_and_embedded() {
    let own = include_bytes!("../../font/NotoSans-Bold.ttf").to_vec();
    let font = FigureFont::file(own).expect("a font");
    assert_eq!(font.family(), "Noto Sans");
    let wrong = FigureFont::file(b"no font".to_vec()).expect_err("no font");
    assert!(wrong.to_string().contains("no TrueType or OpenType font"), "{wrong}");
    let absent = FigureFont::family_of("Other", vec![include_bytes!("../../font/NotoSans-Bold.ttf").to_vec()]);
    assert!(absent.is_err(), "the file has another family");
    let style = FigureStyle { font: Some(font.into()), ..FigureStyle::default() };
    let picture = drawn(&style).remove(0);
    assert!(picture.file().contains("font-family:\"Noto Sans\",\"Noto Sans\""));
    read(&picture.pdf().expect("it can be drawn"));
}
