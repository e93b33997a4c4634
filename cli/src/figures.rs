//! Size and font of the plots of a report, as the command line asks for them.

mod fonts;

use std::sync::Arc;

use clap::Args;
use rtc_report::FigureStyle;
use rtc_session::failure::SessionFailure;

use crate::limits;

/// Points of the units of a length. A point is that of CSS and PDF, 1/72 in.
const UNITS: [(&str, f64); 5] = [("mm", 72.0 / 25.4), ("cm", 72.0 / 2.54), ("in", 72.0), ("pt", 1.0), ("px", 0.75)];

/// The size of labels in figures with a width, in points.
const IN_A_COLUMN: f64 = 8.0;

/// Options of figures for a paper.
#[derive(Args)]
pub(crate) struct FigureOptions {
    /// Lay plots out for a column of this width: 84mm, 17.4cm, 3.3in, 240pt, 400px [default: by content]
    #[arg(long, value_name = "LENGTH", value_parser = length, requires = "plots")]
    width: Option<f64>,
    /// Set labels of plots in this size, in points [default: 8 with --width, else 9]
    #[arg(long, value_name = "POINTS", value_parser = size, requires = "plots")]
    font_size: Option<f64>,
    /// Set plots in an installed font or a TTF or OTF file [default: Noto Sans]
    #[arg(long, value_name = "NAME|FILE", requires = "plots")]
    font: Option<String>,
}

impl FigureOptions {
    /// Finds the font.
    ///
    /// # Errors
    /// No such font is installed, or it can't be embedded; the width has no room for letters of the size.
    pub(crate) fn style(&self) -> Result<FigureStyle, SessionFailure> {
        let default = FigureStyle::default();
        let size = self.font_size.unwrap_or(if self.width.is_some() { IN_A_COLUMN } else { default.size });
        let least = FigureStyle::least_width(size);
        if let Some(width) = self.width.filter(|width| *width < least) {
            let mm = |points: f64| format!("{:.1}", points * 25.4 / 72.0);
            return Err(SessionFailure::Usage(format!(
                "`--width` must be at least 20 times the size of labels ({size} pt), {} mm: got {} mm. Ask for a smaller `--font-size`",
                mm(least),
                mm(width)
            )));
        }
        let font = self.font.as_deref().map(fonts::find).transpose()?.flatten().map(Arc::new);
        Ok(FigureStyle { width: self.width, size, font })
    }
}

/// Reads a length with its unit; gives points.
fn length(text: &str) -> Result<f64, String> {
    let wrong = || "a length with a unit is wanted: 84mm, 8.4cm, 3.3in, 240pt or 320px".to_owned();
    let (number, points) =
        UNITS.iter().find_map(|(unit, points)| Some((text.strip_suffix(unit)?, points))).ok_or_else(wrong)?;
    let length = number.trim_end().parse::<f64>().map_err(|_| wrong())? * points;
    let most = limits::FIGURE;
    match length > 0.0 && length <= most {
        true => Ok(length),
        false => Err(format!("a length up to {} mm is wanted", (most * 25.4 / 72.0).round())),
    }
}

/// Reads a size of letters.
fn size(text: &str) -> Result<f64, String> {
    let size = text.strip_suffix("pt").unwrap_or(text).trim_end().parse::<f64>().ok();
    size.filter(|size| (4.0..=24.0).contains(size)).ok_or_else(|| "a size from 4 to 24 points is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        for (text, points) in [("25.4mm", 72.0), ("2.54 cm", 72.0), ("3in", 216.0), ("240pt", 240.0), ("400px", 300.0)]
        {
            assert!(length(text).is_ok_and(|length| (length - points).abs() < 1e-9), "{text}");
        }
        for text in ["84", "mm", "-1mm", "NaNmm", "infin", "84 furlongs", "1e9mm"] {
            assert!(length(text).is_err(), "{text}");
        }
        assert_eq!((size("8"), size("7.5pt")), (Ok(8.0), Ok(7.5)));
        assert!(size("2").is_err() && size("large").is_err());
    }
}
