//! Pictures of the analyses of a model: its states along their principal components, and the saliency of tokens.

use crate::chart::{Chart, ChartSeries, LineStyle};
use crate::data::{Cloud, Model, SaliencyShares};
use crate::picture::Picture;
use crate::scale::ScaleKind;
use crate::style::FigureStyle;
use crate::theme::SERIES;

/// The pictures of a model, as far as it was analysed.
pub(crate) fn analyses(model: &Model, style: &FigureStyle) -> Vec<Picture> {
    let clouds = model.clouds.iter().enumerate().filter_map(|(n, cloud)| {
        let name = format!("states-{}-{}", model.name, n + 1);
        states(cloud).draw(style).map(|picture| picture.named(&name))
    });
    let saliency = model.saliency.as_ref().and_then(|found| saliency(found).draw(style));
    let saliency = saliency.map(|picture| picture.named(&format!("saliency-{}", model.name)));
    clouds.chain(saliency).collect()
}

fn states(cloud: &Cloud) -> Chart {
    let [first, second] = cloud.shares.map(|share| 100.0 * share);
    let group = |(colour, (name, points)): (usize, &(String, Vec<[f64; 2]>))| {
        ChartSeries::new(name, colour, LineStyle::Cloud, points.iter().map(|[x, y]| (*x, *y)).collect())
    };
    Chart {
        name: "states".to_owned(),
        title: format!("States of {}: {first:.0} % and {second:.0} % of the variance", cloud.place),
        axes: ["first principal component", "second principal component"].map(str::to_owned),
        across: ScaleKind::Linear,
        from_zero: false,
        most: None,
        series: cloud.groups.iter().enumerate().map(group).collect(),
        levels: vec![],
        ends: vec![],
    }
}

fn saliency(found: &SaliencyShares) -> Chart {
    let length = found.shares.len();
    let places = |share: &dyn Fn(usize) -> f64| (0..length).map(|n| (n as f64, 100.0 * share(n))).collect();
    let series = |name: &str, colour, points| ChartSeries::new(name, colour, LineStyle::Line, points);
    let plural = if found.examples == 1 { "" } else { "s" };
    Chart {
        name: "saliency".to_owned(),
        title: format!("Saliency by position: mean of {} row{plural}", found.examples),
        axes: ["position (tokens before it)", "slopes from here to the end (%)"].map(str::to_owned),
        across: ScaleKind::Linear,
        from_zero: true,
        most: None,
        series: vec![
            series("the model", 0, places(&|n| found.shares[n])),
            // One round of colours further lines are dashed.
            series("all tokens alike", SERIES + 6, places(&|n| (length - n) as f64 / length as f64)),
        ],
        levels: vec![],
        ends: vec![],
    }
}
