//! Service contracts in the state: reported by clients, stored unchanged.

use std::sync::Arc;

use crate::check;
use crate::command::{NewContract, Outcome};
use crate::contract::Contract;
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::Record;
use crate::limits::{BODY_BYTES_MAX, CONTRACTS_MAX};
use crate::refusal::{Noun, Refusal};

use super::{Change, State};

impl State {
    pub(super) fn put_contract(
        &mut self,
        new: NewContract,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::contract(&new)?;
        if new.body.len() > BODY_BYTES_MAX {
            return Err(Refusal::Parameter("the contract is too large"));
        }
        let current = self.contracts.get(&new.id).cloned();
        let revision = current.as_ref().map(|current| current.revision);
        if new.over.is_some() && new.over != revision {
            return Err(Refusal::Conflict);
        }
        // Clients report their contract at every start; equal contents need no commit.
        if let Some(current) = current.as_ref().filter(|current| current.body == new.body) {
            return Ok(Outcome::Contract(Arc::clone(current)));
        }
        if current.is_none() && self.contracts.len() >= CONTRACTS_MAX {
            return Err(Refusal::Full { what: "service contracts", max: CONTRACTS_MAX });
        }
        let now = change.now_seconds();
        let contract = Arc::new(Contract {
            id: new.id,
            service: new.service,
            kind: new.kind,
            protocol: new.protocol,
            version: new.version,
            created_at: current.as_ref().map_or(now, |current| current.created_at),
            modified_at: now,
            revision: self.next_revision(),
            body: new.body,
        });
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Contracts, before, contract.held_bytes())?;
        change.journal.put(Record::contract(&contract)?, current.as_ref().into());
        self.place_contract(Arc::clone(&contract));
        Ok(Outcome::Contract(contract))
    }

    pub(super) fn place_contract(&mut self, contract: Arc<Contract>) {
        let after = contract.held_bytes();
        let before = self.contracts.insert(Arc::clone(&contract.id), contract);
        let before = before.map_or(0, |before| before.held_bytes());
        self.held.replace(MemoryClass::Contracts, before, after);
    }

    pub(super) fn delete_contract(
        &mut self,
        id: &str,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.remove_contract(id).ok_or(Refusal::NotFound(Noun::Contract))?;
        change.journal.delete_contract(id);
        Ok(Outcome::Deleted)
    }

    pub(super) fn remove_contract(&mut self, id: &str) -> Option<Arc<Contract>> {
        let removed = self.contracts.remove(id)?;
        self.held.replace(MemoryClass::Contracts, removed.held_bytes(), 0);
        Some(removed)
    }
}
