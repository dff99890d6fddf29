//! Service contracts: reported by clients, kept as they came.

use std::sync::Arc;

use crate::check;
use crate::command::{NewContract, Outcome};
use crate::contract::Contract;
use crate::limits::{BODY_BYTES_MAX, CONTRACTS_MAX};
use crate::refusal::{Noun, Refusal};

use super::{Change, State};

impl State {
    pub(super) fn put_contract(
        &mut self,
        new: NewContract,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::service_name(&new.service.name)?;
        check::namespace_name(&new.service.namespace)?;
        if new.body.len() > BODY_BYTES_MAX {
            return Err(Refusal::Parameter("the contract is too large"));
        }
        let known = self.contracts.get(&new.id).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.body == new.body) {
            return Ok(Outcome::Contract(Arc::clone(known)));
        }
        if known.is_none() && self.contracts.len() >= CONTRACTS_MAX {
            return Err(Refusal::Full { what: "service contracts", max: CONTRACTS_MAX });
        }
        let now = change.now_seconds();
        let contract = Arc::new(Contract {
            id: new.id,
            service: new.service,
            kind: new.kind,
            protocol: new.protocol,
            version: new.version,
            created_at: known.map_or(now, |known| known.created_at),
            modified_at: now,
            revision: self.next_revision(),
            body: new.body,
        });
        change.journal.put_contract(&contract);
        self.contracts.insert(Arc::clone(&contract.id), Arc::clone(&contract));
        Ok(Outcome::Contract(contract))
    }

    pub(super) fn delete_contract(
        &mut self,
        id: &str,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.contracts.remove(id).ok_or(Refusal::NotFound(Noun::Contract))?;
        change.journal.delete_contract(id);
        Ok(Outcome::Deleted)
    }
}
