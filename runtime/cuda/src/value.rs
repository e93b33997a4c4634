//! Values on a device.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::active_rows::ActiveRows;
use super::memory::{DeviceArray, DevicePool};
use rtc_exec::machine::MachineArrays;
use rtc_exec::machine::value;
use rtc_exec::storage::Element;

/// Lists of pieces as kernels read them, uploaded when the first one does.
#[derive(Debug, Default)]
pub struct PieceTables {
    pub(super) gather: OnceCell<DeviceArray>,
    pub(super) scatter: OnceCell<DeviceArray>,
    pub(super) add: OnceCell<Vec<(DeviceArray, usize)>>,
}

/// The arrays of a device, with numbers of this type.
#[derive(Clone, Debug)]
pub struct OnDevice<T>(PhantomData<T>);

impl<T: Element> MachineArrays for OnDevice<T> {
    type Number = T;
    type Reals = DeviceArray;
    type Ids = Rc<Ids>;
    type Truths = DeviceArray;
    type Active = ActiveRows;
    type Tables = PieceTables;
}

/// A value of the graph. Cloning shares the data.
pub(super) type DeviceValue<T> = value::Val<OnDevice<T>>;

/// Ids, labels and counters: they come from the host, which keeps a copy.
#[derive(Debug)]
pub struct Ids {
    pub(super) host: Vec<u32>,
    device: OnceCell<DeviceArray>,
    sorted: OnceCell<Sorted>,
}

/// Places of an id that are added up at once at most.
const PIECE: usize = 256;

/// What the row of a piece is marked with where it is the number of a part; see `embed_grad`.
const PART: u32 = 1 << 31;

/// The places of equal ids side by side, cut into pieces.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    pub(super) order: DeviceArray,
    /// For each piece: where its places end, and to which row it belongs, or which part of a row it is.
    pub(super) pieces: DeviceArray,
    /// For each row that has several pieces: its id, its first part, and the one behind its last.
    pub(super) joins: DeviceArray,
    /// Parts of all of these.
    pub(super) parts: usize,
}

impl Ids {
    pub(super) fn new(host: Vec<u32>) -> Rc<Self> {
        Rc::new(Self { host, device: OnceCell::new(), sorted: OnceCell::new() })
    }

    pub(super) fn array(&self, pool: &DevicePool) -> &DeviceArray {
        self.device.get_or_init(|| pool.upload(&self.host))
    }

    /// The order keeps the places of an id as they come, so that sums over them have one order. There are `kinds` ids at most;
    /// tables are filled up to what so many ids can need, so that their sizes do not depend on the ids.
    pub(super) fn sorted(&self, kinds: usize, pool: &DevicePool) -> &Sorted {
        self.sorted.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.host.len() as u32).collect();
            order.sort_by_key(|place| self.host[*place as usize]);
            let PieceLists { mut pieces, mut joins, mut parts } = cut(&order, |place| self.host[place as usize]);
            if kinds > 0 {
                let count = order.len();
                pieces.resize(pieces.len().max(kinds.min(count) + count / PIECE), [count as u32, 0]);
                joins.resize(count / (PIECE + 1), [0; 3]);
                parts = 2 * joins.len();
            }
            let (pieces, joins) = (pool.upload(pieces.as_flattened()), pool.upload(joins.as_flattened()));
            Sorted { order: pool.upload(&order), pieces, joins, parts }
        })
    }
}

/// Lists of pieces into which places are cut, as [`Sorted`] has it.
#[derive(Debug, Default, PartialEq)]
struct PieceLists {
    pieces: Vec<[u32; 2]>,
    joins: Vec<[u32; 3]>,
    parts: usize,
}

/// Cuts places of which those with equal ids follow one another.
fn cut(order: &[u32], id: impl Fn(u32) -> u32) -> PieceLists {
    let (mut out, mut end) = (PieceLists::default(), 0);
    for places in order.chunk_by(|a, b| id(*a) == id(*b)) {
        let (row, count) = (id(places[0]), places.len().div_ceil(PIECE));
        let part = |n: usize| if count == 1 { row } else { PART | (out.parts + n) as u32 };
        for (n, piece) in places.chunks(PIECE).enumerate() {
            end += piece.len() as u32;
            out.pieces.push([end, part(n)]);
        }
        if count > 1 {
            out.joins.push([row, out.parts as u32, (out.parts + count) as u32]);
            out.parts += count;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_places_of_one_id_in_order() {
        let ids: Vec<u32> = [(5, 3), (7, PIECE), (8, 2 * PIECE + 1), (9, PIECE + 1)]
            .into_iter()
            .flat_map(|(id, count)| std::iter::repeat_n(id, count))
            .collect();
        let order: Vec<u32> = (0..ids.len() as u32).collect();
        let PieceLists { pieces, joins, parts } = cut(&order, |place| ids[place as usize]);
        assert_eq!(
            pieces,
            [[3, 5], [259, 7], [515, PART], [771, PART | 1], [772, PART | 2], [1028, PART | 3], [1029, PART | 4]]
        );
        assert_eq!((joins, parts), (vec![[8, 0, 3], [9, 3, 5]], 5));
    }

    /// What tables are filled up to is enough for whatever ids there are.
    #[test]
    fn there_is_room_for_the_pieces_of_all_ids() {
        for counts in [&[1, 1, 1][..], &[257], &[257, 257, 257], &[513, 256, 258, 1], &[1024, 1025, 1023], &[256, 256]]
        {
            let ids: Vec<u32> = counts.iter().zip(0..).flat_map(|(n, id)| std::iter::repeat_n(id, *n)).collect();
            let order: Vec<u32> = (0..ids.len() as u32).collect();
            let PieceLists { pieces, joins, parts } = cut(&order, |place| ids[place as usize]);
            assert!(pieces.len() <= counts.len() + ids.len() / PIECE, "{counts:?}");
            let most = ids.len() / (PIECE + 1);
            assert!(joins.len() <= most && parts <= 2 * most, "{counts:?}: {joins:?} {parts}");
        }
    }
}
