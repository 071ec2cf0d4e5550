//! Who waits for whom, drawn beside a list: one line for each node, lines between them as `git log --graph` has them.
//!
//! Owns the drawing. Refuses to know what the nodes are. A line leads down from a node to those who wait for it; `├`, `╮`, `┤`,
//! `╯` and the like are where it turns off or arrives, and `┼` is only a crossing.

use crate::limits::GRAPH_LANES_MAX;

/// One line of the drawing: what is drawn, and whose line it is. One that only joins others is nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub drawn: String,
    pub node: Option<usize>,
}

/// The nodes with whom they wait for, each told by its index, drawn so that nobody stands before one they wait for. `mark` is how
/// a node is drawn. `None` if it would be wider than anybody can follow.
pub fn drawn(waits_for: &[Vec<usize>], mark: impl Fn(usize) -> char) -> Option<Vec<Row>> {
    let mut lanes: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    // Where the last node stood, if no line leads on from it: what stood right under it would look as if it waited for it.
    let mut ended: Option<usize> = None;
    for node in order(waits_for) {
        if ended.is_some() && lanes.is_empty() {
            rows.push(Row { drawn: String::new(), node: None });
            ended = None;
        }
        let column = lanes.iter().position(|lane| *lane == Some(node)).unwrap_or_else(|| {
            let column = free(&mut lanes, 0);
            if ended == Some(column) { free(&mut lanes, column + 1) } else { column }
        });
        lanes[column] = Some(node);
        rows.push(Row { drawn: line(&lanes, column, mark(node)), node: Some(node) });
        lanes[column] = None;
        let waiting = (0..waits_for.len()).filter(|other| waits_for[*other].contains(&node));
        let (arriving, setting_out): (Vec<usize>, Vec<usize>) =
            waiting.partition(|other| lanes.contains(&Some(*other)));
        let goes_on = !setting_out.is_empty();
        let before = lanes.clone();
        for other in setting_out {
            let lane = free(&mut lanes, column);
            lanes[lane] = Some(other);
        }
        let new: Vec<usize> =
            (0..lanes.len()).filter(|lane| before.get(*lane).copied().flatten() != lanes[*lane]).collect();
        if new.len() > 1 {
            rows.push(Row { drawn: fork(&before, &new, column), node: None });
        }
        let count = arriving.len();
        ended = (count == 0 && !goes_on).then_some(column);
        for (index, other) in arriving.into_iter().enumerate() {
            let lane = lanes.iter().position(|lane| *lane == Some(other)).unwrap_or(column);
            let ends = index + 1 == count && !goes_on;
            rows.push(Row { drawn: join(&lanes, column, lane, ends), node: None });
        }
        while lanes.last() == Some(&None) {
            lanes.pop();
        }
        if lanes.len() > GRAPH_LANES_MAX {
            return None;
        }
    }
    Some(rows)
}

/// The nodes, each after all it waits for; otherwise as they came. Those in a circle come last.
fn order(waits_for: &[Vec<usize>]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    let mut left: Vec<usize> = (0..waits_for.len()).collect();
    while !left.is_empty() {
        let is_free = |node: &usize| waits_for[*node].iter().all(|other| order.contains(other));
        let at = left.iter().position(is_free).unwrap_or(0);
        order.push(left.remove(at));
    }
    order
}

/// The first lane from `from` on that nobody has.
fn free(lanes: &mut Vec<Option<usize>>, from: usize) -> usize {
    let found = (from..lanes.len()).find(|lane| lanes[*lane].is_none());
    found.unwrap_or_else(|| {
        lanes.push(None);
        lanes.len() - 1
    })
}

fn line(lanes: &[Option<usize>], column: usize, mark: char) -> String {
    cells(lanes.len(), |lane| match (lane == column, lanes[lane].is_some()) {
        (true, _) => (mark, ' '),
        (false, true) => ('│', ' '),
        (false, false) => (' ', ' '),
    })
}

/// From one lane to new ones at its right, or right under it.
fn fork(before: &[Option<usize>], new: &[usize], column: usize) -> String {
    let last = new.iter().copied().max().unwrap_or(column);
    cells(before.len().max(last + 1), |lane| {
        let (is_old, is_new) = (before.get(lane).copied().flatten().is_some(), new.contains(&lane));
        let within = (column..last).contains(&lane);
        let drawn = match (lane == column, is_new, is_old) {
            (true, ..) => '├',
            (false, true, _) if lane == last => '╮',
            (false, true, _) => '┬',
            (false, false, true) if within => '┼',
            (false, false, true) => '│',
            (false, false, false) if within => '─',
            (false, false, false) => ' ',
        };
        (drawn, if within { '─' } else { ' ' })
    })
}

/// From one lane to another that is there already.
fn join(lanes: &[Option<usize>], column: usize, other: usize, ends: bool) -> String {
    let (first, last) = (column.min(other), column.max(other));
    cells(lanes.len().max(last + 1), |lane| {
        let within = (first..last).contains(&lane);
        let drawn = if lane == column {
            match (ends, column < other) {
                (true, true) => '╰',
                (true, false) => '╯',
                (false, true) => '├',
                (false, false) => '┤',
            }
        } else if lane == other {
            if column < other { '┤' } else { '├' }
        } else if lanes.get(lane).copied().flatten().is_some() {
            if within { '┼' } else { '│' }
        } else if within {
            '─'
        } else {
            ' '
        };
        (drawn, if within { '─' } else { ' ' })
    })
}

fn cells(count: usize, cell: impl Fn(usize) -> (char, char)) -> String {
    let drawn = (0..count).flat_map(|lane| <[char; 2]>::from(cell(lane)));
    drawn.collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(waits_for: &[&[usize]], expected: Expect) {
        let waits_for: Vec<Vec<usize>> = waits_for.iter().map(|list| list.to_vec()).collect();
        let rows = drawn(&waits_for, |_| '●').unwrap_or_default();
        let text = rows.iter().map(|row| match row.node {
            Some(node) => format!("{}  {node}\n", row.drawn),
            None => format!("{}\n", row.drawn),
        });
        expected.assert_eq(&text.collect::<String>());
    }

    #[test]
    fn a_chain_is_one_line() {
        check(
            &[&[], &[0], &[1]],
            expect![[r#"
            ●  0
            ●  1
            ●  2
        "#]],
        );
    }

    #[test]
    fn those_who_wait_for_nobody_stand_alone() {
        check(
            &[&[], &[], &[]],
            expect![[r#"
                ●  0

                ●  1

                ●  2
            "#]],
        );
    }

    #[test]
    fn a_diamond_parts_and_meets() {
        check(
            &[&[], &[0], &[0], &[1, 2]],
            expect![[r#"
            ●  0
            ├─╮
            ● │  1
            │ ●  2
            ├─╯
            ●  3
        "#]],
        );
    }

    #[test]
    fn a_later_one_may_wait_for_many() {
        check(
            &[&[], &[], &[], &[0, 1, 2], &[0]],
            expect![[r#"
            ●  0
            ├─╮
            │ │ ●  1
            ├─┼─╯
            │ │ ●  2
            ├─┼─╯
            ● │  3
              ●  4
        "#]],
        );
    }

    #[test]
    fn an_end_is_not_taken_for_a_beginning() {
        check(
            &[&[], &[0], &[0], &[], &[2, 3]],
            expect![[r#"
            ●  0
            ├─╮
            ● │  1
              ●  2
            ● │  3
            ╰─┤
              ●  4
        "#]],
        );
    }

    #[test]
    fn lines_cross() {
        check(
            &[&[], &[], &[0], &[1], &[0, 1], &[2, 3, 4]],
            expect![[r#"
            ●  0
            ├─╮
            │ │ ●  1
            │ ├─┤
            ● │ │  2
            │ │ ●  3
            ├─┼─╯
            │ ●  4
            ├─╯
            ●  5
        "#]],
        );
    }

    #[test]
    fn what_nobody_could_follow_is_not_drawn() {
        let mut waits_for = vec![vec![]];
        waits_for.extend((0..40).map(|_| vec![0]));
        assert_eq!(drawn(&waits_for, |_| '●'), None);
    }
}
