//! Pagination of lists, in ShenYu's formats.

use serde_json::{Value, json};

use crate::limits::PAGE_ROWS_MAX;

/// Default number of rows per page.
const PAGE_ROWS: usize = 12;

/// JSON form in which ShenYu answers with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Format of lists: `{"page":{…},"dataList":[…]}`.
    Pager,
    /// Format of searches: `{"total":…,"pages":…,"list":[…],…}`.
    Search,
}

/// Number and size of the requested page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRequest {
    current: usize,
    size: usize,
}

impl PageRequest {
    /// Creates a request from the given arguments. A missing one gets its default; one out of range
    /// is clamped.
    pub(crate) fn new(current: Option<i64>, size: Option<i64>) -> Self {
        let bounded = |number: Option<i64>, default, max| {
            number.map_or(default, |number| usize::try_from(number).unwrap_or(1).clamp(1, max))
        };
        // Keeps the product of page number and page size within `usize`.
        let pages_max = usize::MAX / PAGE_ROWS_MAX;
        Self {
            current: bounded(current, 1, pages_max),
            size: bounded(size, PAGE_ROWS, PAGE_ROWS_MAX),
        }
    }

    /// Returns the requested page of `rows` in the given format. Only rows of that page are
    /// converted by `view`.
    pub(crate) fn shaped<T>(
        self,
        shape: Shape,
        rows: Vec<T>,
        view: impl FnMut(T) -> Value,
    ) -> Value {
        let total = rows.len();
        let offset = (self.current - 1) * self.size;
        let list: Vec<Value> = rows.into_iter().skip(offset).take(self.size).map(view).collect();
        match shape {
            Shape::Pager => self.pager(total, list),
            Shape::Search => self.found(total, list),
        }
    }

    /// Returns the requested page of `rows` as [`Shape::Pager`].
    pub(crate) fn cut<T>(self, rows: Vec<T>, view: impl FnMut(T) -> Value) -> Value {
        self.shaped(Shape::Pager, rows, view)
    }

    fn pager(self, total: usize, list: Vec<Value>) -> Value {
        let pages = total.div_ceil(self.size);
        json!({
            "page": {
                "currentPage": self.current,
                "prePage": self.current.saturating_sub(1).max(1),
                "nextPage": if self.current < pages { self.current + 1 } else { pages },
                "pageSize": self.size,
                "offset": (self.current - 1) * self.size,
                "totalPage": pages,
                "totalCount": total,
            },
            "dataList": list,
        })
    }

    fn found(self, total: usize, list: Vec<Value>) -> Value {
        /// Number of page links that the console shows.
        const NUMBERS: usize = 8;
        let (pages, offset) = (total.div_ceil(self.size), (self.current - 1) * self.size);
        let first = self.current.saturating_sub(NUMBERS / 2).min(pages.saturating_sub(NUMBERS)) + 1;
        let numbers: Vec<usize> = (first..=pages).take(NUMBERS).collect();
        let is_last = self.current >= pages;
        json!({
            "total": total,
            "pageNum": self.current,
            "pageSize": self.size,
            "size": list.len(),
            "startRow": if list.is_empty() { 0 } else { offset + 1 },
            "endRow": if list.is_empty() { 0 } else { offset + list.len() },
            "pages": pages,
            "prePage": self.current - 1,
            "nextPage": if is_last { 0 } else { self.current + 1 },
            "isFirstPage": self.current == 1,
            "isLastPage": is_last,
            "hasPreviousPage": self.current > 1,
            "hasNextPage": !is_last,
            "navigatePages": NUMBERS,
            "navigateFirstPage": numbers.first().copied().unwrap_or(0),
            "navigateLastPage": numbers.last().copied().unwrap_or(0),
            "navigatepageNums": numbers,
            "list": list,
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
        let found = |current, rows: &[usize]| {
            PageRequest::new(Some(current), Some(2)).shaped(
                Shape::Search,
                rows.to_vec(),
                Value::from,
            )
        };
        let rows: Vec<usize> = (0..25).collect();
        let page = found(7, &rows);
        assert_eq!(page["list"], json!([12, 13]));
        assert_eq!((&page["startRow"], &page["endRow"]), (&json!(13), &json!(14)));
        assert_eq!(page["navigatepageNums"], json!([4, 5, 6, 7, 8, 9, 10, 11]));
        assert_eq!((&page["pages"], &page["total"]), (&json!(13), &json!(25)));
        let last = found(13, &rows);
        assert_eq!((&last["nextPage"], &last["hasNextPage"]), (&json!(0), &json!(false)));
        let none = found(1, &[]);
        assert_eq!((&none["total"], &none["navigatepageNums"]), (&json!(0), &json!([])));
    }
}
