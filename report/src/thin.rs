//! Thinning of long series that keeps their peaks.

/// A point of a series.
pub(crate) type SeriesPoint = (f64, f64);

/// At most about `most` of the points: of every stretch of equal count the lowest and the highest, in their order, and the
/// two ends. What is not finite is a gap and counts as neither.
pub(crate) fn thinned(points: &[SeriesPoint], most: usize) -> Vec<SeriesPoint> {
    let most = most.max(8);
    if points.len() <= most {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(most / 2 - 1);
    let mut out = vec![points[0]];
    for (n, part) in points.chunks(stretch).enumerate() {
        let finite = || part.iter().enumerate().filter(|(_, (x, y))| x.is_finite() && y.is_finite());
        let low = finite().min_by(|(_, a), (_, b)| a.1.total_cmp(&b.1)).map(|(n, _)| n);
        let high = finite().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1)).map(|(n, _)| n);
        let (Some(low), Some(high)) = (low, high) else {
            out.push((n as f64, f64::NAN));
            continue;
        };
        out.push(part[low.min(high)]);
        if low != high {
            out.push(part[low.max(high)]);
        }
    }
    out.push(points[points.len() - 1]);
    out.dedup();
    out
}

/// The mean of every stretch of so many points, at the mean of their places; a stretch without a finite one is a gap.
pub(crate) fn averaged(points: &[SeriesPoint], stretch: usize) -> Vec<SeriesPoint> {
    let mean = |part: &[SeriesPoint]| {
        let (count, sum) =
            part.iter().filter(|(_, y)| y.is_finite()).fold((0, 0.0), |(n, sum), (_, y)| (n + 1, sum + y));
        (part.iter().map(|(x, _)| x).sum::<f64>() / part.len() as f64, sum / f64::from(count))
    };
    points.chunks(stretch.max(1)).map(mean).collect()
}

/// The mean of every point and its neighbours, `reach` on each side; fewer at the ends. Only finite ones count.
pub(crate) fn smoothed(points: &[SeriesPoint], reach: usize) -> Vec<SeriesPoint> {
    let mut sums = vec![(0.0, 0_usize)];
    for (_, y) in points {
        let (sum, count) = sums[sums.len() - 1];
        sums.push(if y.is_finite() { (sum + y, count + 1) } else { (sum, count) });
    }
    let mean = |n: usize| {
        let (from, to) = (sums[n.saturating_sub(reach)], sums[(n + reach + 1).min(points.len())]);
        (to.0 - from.0) / (to.1 - from.1) as f64
    };
    points.iter().enumerate().map(|(n, (x, _))| (*x, mean(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_points_become_few_and_keep_their_peak() {
        let mut points: Vec<SeriesPoint> =
            (0..1_000_000).map(|n| (f64::from(n), (f64::from(n) * 1e-4).sin())).collect();
        points[654_321].1 = 50.0;
        let few = thinned(&points, 500);
        assert!(few.len() <= 502, "{}", few.len());
        assert!(few.contains(&(654_321.0, 50.0)));
        assert_eq!((few[0], few[few.len() - 1]), (points[0], points[999_999]));
        assert!(few.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn gaps_and_short_series_survive() {
        assert_eq!(thinned(&[], 10), []);
        assert_eq!(thinned(&[(1.0, 2.0)], 10), [(1.0, 2.0)]);
        assert!(thinned(&vec![(0.0, f64::NAN); 100], 10).iter().all(|(_, y)| y.is_nan()));
        assert_eq!(smoothed(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 4.0)], 1), [(0.0, 1.0), (1.0, 2.5), (2.0, 4.0)]);
        assert_eq!(smoothed(&[], 3), []);
        assert_eq!(averaged(&[(1.0, 2.0), (2.0, f64::NAN), (5.0, 7.0)], 2), [(1.5, 2.0), (5.0, 7.0)]);
        assert!(averaged(&[(1.0, f64::NAN)], 4)[0].1.is_nan());
    }
}
