//! Tensors of labels as those of a batch.

use candle_core::{DType, Device, Result, Tensor, bail};
use rtc_base::batch::Labels;
use rtc_task::Objective;

use crate::rows::{PackedRows, same_device, whole};

/// The labels of rows, of which there must be as many as answers.
pub(crate) fn labels(
    tensor: &Tensor,
    rows: &PackedRows,
    objective: Objective,
    classes: usize,
    device: &Device,
) -> Result<Labels> {
    let (count, each) = match objective {
        Objective::Classify | Objective::Number => (rows.count(), "row"),
        Objective::Pair => (rows.count() / 2, "pair"),
        Objective::Each => (rows.batch.tokens.len(), "token"),
        Objective::Several => (rows.count() * classes, "label of every row"),
    };
    if tensor.elem_count() != count {
        bail!("there are {} labels, and one per {each} makes {count}", tensor.elem_count());
    }
    if objective == Objective::Number {
        same_device(tensor, device, "label")?;
        return match tensor.dtype() {
            DType::F32 => Ok(Labels::Number(tensor.flatten_all()?.to_vec1()?)),
            other => bail!("the labels of this model are numbers of type f32, and these are {}", other.as_str()),
        };
    }
    let numbers = whole(tensor, device, "label")?;
    let class = |number: i64| match u32::try_from(number) {
        Ok(class) => Ok(class),
        Err(_) => bail!("{number} is no label: they are counted from 0"),
    };
    match objective {
        Objective::Each => {
            // As elsewhere, a negative label is none.
            let weight = numbers.iter().map(|number| if *number < 0 { 0.0 } else { 1.0 }).collect();
            let class = numbers.into_iter().map(|number| class(number.max(0))).collect::<Result<_>>()?;
            Ok(Labels::Each { class, weight })
        }
        Objective::Several => Ok(Labels::Several(numbers.into_iter().map(class).collect::<Result<_>>()?)),
        _ => Ok(Labels::Class(numbers.into_iter().map(class).collect::<Result<_>>()?)),
    }
}
