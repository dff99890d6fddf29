//! Changes to tables of other programs, in one transaction: either all are made or none. The caller
//! writes the statements, because it knows those tables.

use std::fmt;

use tollhouse_store::StoreError;

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::options::{Engine, SqlOptions};

/// Bytes of statements in one packet, unless one statement is longer. Old servers accept 4 MiB.
const PACKET_BYTES: usize = 512 * 1024;

/// A transaction on tables of other programs. If it is dropped before [`Exchange::commit`], nothing
/// is changed.
pub struct Exchange {
    connection: Connection,
    place: Box<str>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins the transaction, on a server that accepts writes. Values that do not fit into their
    /// columns are errors.
    ///
    /// # Errors
    /// If the database is unreachable or refuses.
    pub async fn begin(options: &SqlOptions) -> Result<Self, StoreError> {
        let place = options.place();
        let begin = async {
            let dialect =
                Dialect { engine: options.engine, tables: options.tables.as_str().into() };
            let mut connection = Connection::open(options, &dialect, Purpose::Writing).await?;
            let begin = match options.engine {
                Engine::MySql => {
                    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'; START TRANSACTION"
                }
                Engine::PostgreSql => "BEGIN",
            };
            connection.run(begin.to_owned()).await?;
            Ok::<_, Failure>(connection)
        };
        let connection = begin.await.map_err(|failure| failure.to_error(&place))?;
        Ok(Self { connection, place })
    }

    /// Runs statements and returns the number of rows that each one found or created. The
    /// statements must not end the transaction. After an error the transaction is rolled back.
    ///
    /// # Errors
    /// If the connection is lost, or the database refuses.
    pub async fn run(&mut self, statements: &[String]) -> Result<Vec<u64>, StoreError> {
        let mut found = Vec::with_capacity(statements.len());
        let mut rest = statements;
        while !rest.is_empty() {
            let (mut packet, mut count) = (String::new(), 0);
            for statement in rest {
                if count > 0 && packet.len() + statement.len() > PACKET_BYTES {
                    break;
                }
                packet.push_str(if count == 0 { "" } else { "; " });
                packet.push_str(statement);
                count += 1;
            }
            let sets = self.connection.run(packet).await;
            let sets = sets.map_err(|failure| failure.to_error(&self.place))?;
            found.extend(sets.iter().map(|set| set.affected));
            rest = &rest[count..];
        }
        Ok(found)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// If the database refuses. If the connection is lost, the outcome is unknown.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        match self.connection.run("COMMIT".to_owned()).await {
            Ok(_) => Ok(()),
            Err(Failure::Lost(reason)) => Err(StoreError::Unanswered { place: self.place, reason }),
            Err(failure) => Err(failure.to_error(&self.place)),
        }
    }
}
