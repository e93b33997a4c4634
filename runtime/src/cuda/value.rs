//! Values on a device.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::active_rows::ActiveRows;
use super::machine::Tables;
use super::memory::{Array, Pool};
use crate::exec::machine::Arrays;
use crate::exec::storage::Element;
use crate::exec::value;

/// The arrays of a device, with numbers of this type.
#[derive(Clone, Debug)]
pub(crate) struct OnDevice<T>(PhantomData<T>);

impl<T: Element> Arrays for OnDevice<T> {
    type Number = T;
    type Reals = Array;
    type Ids = Rc<Ids>;
    type Truths = Array;
    type Active = ActiveRows;
    type Tables = Tables;
}

/// A value of the graph. Cloning shares the data.
pub(super) type Val<T> = value::Val<OnDevice<T>>;

/// Ids, labels and counters: they come from the host, which keeps a copy.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(super) host: Vec<u32>,
    device: OnceCell<Array>,
    sorted: OnceCell<Sorted>,
}

/// The places of equal ids side by side.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    pub(super) order: Array,
    /// The ids that occur, and then any.
    pub(super) ids: Array,
    /// For each of those: where its places end.
    pub(super) ends: Array,
}

impl Ids {
    pub(super) fn new(host: Vec<u32>) -> Rc<Self> {
        Rc::new(Self { host, device: OnceCell::new(), sorted: OnceCell::new() })
    }

    pub(super) fn array(&self, pool: &Pool) -> &Array {
        self.device.get_or_init(|| pool.upload(&self.host))
    }

    /// The order keeps the places of an id as they come, so that sums over them have one order. There are `kinds` ids at most;
    /// entries for those that do not occur have no places, so that the size of the tables does not depend on the ids.
    pub(super) fn sorted(&self, kinds: usize, pool: &Pool) -> &Sorted {
        self.sorted.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.host.len() as u32).collect();
            order.sort_by_key(|place| self.host[*place as usize]);
            let (mut ids, mut ends) = (vec![], vec![]);
            for (n, place) in order.iter().enumerate() {
                let id = self.host[*place as usize];
                if ids.last() != Some(&id) {
                    ids.push(id);
                    ends.push(0);
                }
                if let Some(end) = ends.last_mut() {
                    *end = n as u32 + 1;
                }
            }
            let entries = kinds.min(order.len()).max(ids.len());
            ids.resize(entries, 0);
            ends.resize(entries, order.len() as u32);
            Sorted { order: pool.upload(&order), ids: pool.upload(&ids), ends: pool.upload(&ends) }
        })
    }
}

impl<T: Element> Val<T> {
    /// The numbers of a real value.
    pub(super) fn array(&self) -> &Array {
        match self {
            Self::Real(x) => x,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }
}
