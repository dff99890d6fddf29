//! Statements of a plan, and the rows that they change.

use std::collections::BTreeMap;

use crate::database::push_text;
use crate::database::record::{self, Record, Statement};

/// Rows per statement that updates times; a statement is then some 100 kB long.
const TOUCHED_ROWS_MAX: usize = 500;

#[derive(Debug, Default)]
pub struct Changes {
    /// Statements, to be executed in this order in one transaction.
    pub statements: Vec<Statement>,
    touched_by_name: Vec<(&'static str, String)>,
    touched: BTreeMap<(&'static str, &'static str), Vec<String>>,
}

impl Changes {
    pub(super) fn touch(&mut self, table: &'static str, key: &'static str, value: &str) {
        self.touched.entry((table, key)).or_default().push(value.to_owned());
    }

    /// Notes a new row, whose key the database sets.
    pub(super) fn touch_named(&mut self, record: &Record) {
        self.touched_by_name.push((record.table, record.name_condition()));
    }

    /// Returns statements that set the modification time of all changed rows to now. Polaris'
    /// servers poll for changes of the last seconds, but a long transaction becomes visible only at
    /// its end.
    pub fn touches(&self) -> Vec<Statement> {
        let mut statements = Vec::new();
        for (table, condition) in &self.touched_by_name {
            let time = record::time_of_change(table);
            let sql =
                format!("UPDATE `{table}` SET `{time}` = CURRENT_TIMESTAMP WHERE {condition}");
            statements.push(Statement { sql, finds_one: false });
        }
        for ((table, key), values) in &self.touched {
            let time = record::time_of_change(table);
            for values in values.chunks(TOUCHED_ROWS_MAX) {
                let mut sql =
                    format!("UPDATE `{table}` SET `{time}` = CURRENT_TIMESTAMP WHERE `{key}` IN (");
                for (place, value) in values.iter().enumerate() {
                    sql.push_str(if place == 0 { "" } else { ", " });
                    push_text(&mut sql, value);
                }
                sql.push(')');
                statements.push(Statement { sql, finds_one: false });
            }
        }
        statements
    }
}
