//! Pages of a list, in ShenYu's shape.

use serde_json::{Value, json};

use crate::limits::PAGE_ROWS_MAX;

/// Rows of a page where nobody says how many.
const PAGE_ROWS: usize = 12;

/// Which page of which size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRequest {
    current: usize,
    size: usize,
}

impl PageRequest {
    /// From what was asked for; what is missing or out of its bounds is what is nearest.
    pub(crate) fn new(current: Option<i64>, size: Option<i64>) -> Self {
        let bounded = |number: Option<i64>, default, max| {
            number.map_or(default, |number| usize::try_from(number).unwrap_or(1).clamp(1, max))
        };
        // So many pages as rows: an offset can be calculated.
        let pages_max = usize::MAX / PAGE_ROWS_MAX;
        Self {
            current: bounded(current, 1, pages_max),
            size: bounded(size, PAGE_ROWS, PAGE_ROWS_MAX),
        }
    }

    /// `{"page":…,"dataList":…}` of all rows, of which those of the page are made.
    pub(crate) fn cut<T>(self, rows: Vec<T>, view: impl FnMut(T) -> Value) -> Value {
        let total = rows.len();
        let pages = total.div_ceil(self.size);
        let offset = (self.current - 1) * self.size;
        let list: Vec<Value> = rows.into_iter().skip(offset).take(self.size).map(view).collect();
        json!({
            "page": {
                "currentPage": self.current,
                "prePage": self.current.saturating_sub(1).max(1),
                "nextPage": if self.current < pages { self.current + 1 } else { pages },
                "pageSize": self.size,
                "offset": offset,
                "totalPage": pages,
                "totalCount": total,
            },
            "dataList": list,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_it_stands() {
        let rows: Vec<usize> = (0..25).collect();
        let page = PageRequest::new(Some(2), None).cut(rows.clone(), Value::from);
        let expected = json!({"currentPage": 2, "prePage": 1, "nextPage": 3, "pageSize": 12,
            "offset": 12, "totalPage": 3, "totalCount": 25});
        assert_eq!(page["page"], expected);
        assert_eq!(page["dataList"][0], 12);
        let beyond = PageRequest::new(Some(i64::MAX), Some(-1)).cut(rows, Value::from);
        assert_eq!(beyond["dataList"], json!([]));
        assert_eq!(beyond["page"]["pageSize"], 1);
    }
}
