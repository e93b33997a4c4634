//! Pictures of a model whose depth comes with the examples: how right and how sure it is after every number of steps.

use rtc_train::stopping::StepRow;

use crate::chart::{Chart, ChartSeries, LineStyle};
use crate::data::{Model, StepCurve};
use crate::picture::Picture;
use crate::scale::ScaleKind;
use crate::style::FigureStyle;
use crate::thin::SeriesPoint;

/// The colour of marks in the legend, which belong to no line.
const GREY: usize = 6;

/// A quantity that is measured after every step.
struct StepQuantity {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&StepRow) -> Option<f64>,
}

const QUANTITIES: &[StepQuantity] = &[
    StepQuantity {
        name: "accuracy",
        title: "Accuracy by step",
        unit: "right answers (%)",
        value: |after| Some(100.0 * after.accuracy),
    },
    StepQuantity {
        name: "exact",
        title: "Rows without a mistake by step",
        unit: "rows (%)",
        value: |after| after.metrics.get("exact").map(|share| 100.0 * share),
    },
    StepQuantity {
        name: "confidence",
        title: "Confidence by step: the lower, the surer",
        unit: "mean of -log max p (nats)",
        value: |after| Some(after.confidence),
    },
];

/// The charts of a model, as far as it was measured step by step; a line is a length.
pub(crate) fn by_step(model: &Model, style: &FigureStyle) -> Vec<Picture> {
    let named = |quantity: &StepQuantity| {
        let name = format!("{}-by-step-{}", quantity.name, model.name);
        chart(quantity, &model.steps).draw(style).map(|picture| picture.named(&name))
    };
    QUANTITIES.iter().filter_map(named).collect()
}

fn chart(quantity: &StepQuantity, curves: &[StepCurve]) -> Chart {
    let mut series: Vec<ChartSeries> =
        curves.iter().enumerate().flat_map(|(n, curve)| lines(quantity, curve, n)).collect();
    if series.iter().any(|series| !series.points.is_empty()) {
        let entry = |name: &str, look| ChartSeries::new(name, GREY, look, vec![]);
        series.extend([entry("steps of the examples", LineStyle::Rings), entry("surest", LineStyle::Discs)]);
    }
    Chart {
        name: "by-step".to_owned(),
        title: quantity.title.to_owned(),
        axes: ["steps", quantity.unit].map(str::to_owned),
        across: ScaleKind::Linear,
        from_zero: true,
        most: None,
        series,
        levels: vec![],
        ends: vec![],
    }
}

/// The line of a length, with a ring at the steps that come with its examples and a disc where they are surest.
fn lines(quantity: &StepQuantity, curve: &StepCurve, colour: usize) -> [ChartSeries; 3] {
    let name = format!("length {}", curve.length);
    let point = |(n, after): (usize, &StepRow)| ((n + 1) as f64, (quantity.value)(after).unwrap_or(f64::NAN));
    let marked = |marks: fn(&StepRow) -> bool| -> Vec<SeriesPoint> {
        curve.after.iter().enumerate().filter(|(_, after)| marks(after)).map(point).collect()
    };
    let series =
        |look, points: Vec<SeriesPoint>, notes| ChartSeries { notes, ..ChartSeries::new(&name, colour, look, points) };
    let (due, surest) = (marked(|after| after.due > 0), marked(|after| after.surest));
    let told = |after: &StepRow| format!("the steps of {} of {} examples", after.due, curve.examples);
    let notes = curve.after.iter().filter(|after| after.due > 0).map(told).collect();
    let of = format!("{} examples of {}", curve.examples, curve.split);
    [
        series(LineStyle::Line, curve.after.iter().enumerate().map(point).collect(), vec![of; curve.after.len()]),
        series(LineStyle::Discs, surest.clone(), vec!["surest".to_owned(); surest.len()]),
        series(LineStyle::Rings, due, notes),
    ]
}
