//! Rights to commands: the function and the resources of each command.

use tollhouse_registry::config::{ConfigCommand, ConfigFileKey};
use tollhouse_registry::identity::Resource;
use tollhouse_registry::{Command, NewContract, RuleKind, ServiceKey, ServiceRef, State};

use super::{Rights, rule_resource};
use crate::access::Door;
use crate::code::Code;

/// Functions of rules, by kind: create, update, delete, enable, list.
type RuleFunctions = [&'static str; 5];

/// Whether a command creates an object that policies name.
pub(super) fn creates(state: &State, command: &Command) -> bool {
    match command {
        Command::Register(new) => {
            let service = ServiceRef { namespace: &new.namespace, name: &new.service };
            state.resolve(service).is_none()
        }
        Command::CreateNamespace(..) | Command::CreateService(..) => true,
        Command::Config(_, command) => match &**command {
            ConfigCommand::CreateGroup(..) => true,
            ConfigCommand::CreateFile(key, _) | ConfigCommand::WriteAndPublish { key, .. } => {
                state.config_group(&key.namespace, &key.group).is_none()
            }
            _ => false,
        },
        _ => false,
    }
}

impl Rights<'_> {
    /// Checks a command by what it changes.
    pub(crate) fn command(&self, command: &Command) -> Result<(), Code> {
        if self.identity.is_none() {
            return Ok(());
        }
        let is_client = self.door == Door::Client;
        match command {
            Command::Register(new) => {
                let function = if is_client { "RegisterInstance" } else { "CreateInstances" };
                self.instance_or_service(
                    function,
                    &new.id,
                    ServiceRef { namespace: &new.namespace, name: &new.service },
                )
            }
            Command::Deregister(id) => {
                let function = if is_client { "DeregisterInstance" } else { "DeleteInstances" };
                self.instance(function, id)
            }
            Command::UpdateInstance(id, _) => self.instance("UpdateInstances", id),
            Command::UpdateInstances(ids, _) => {
                ids.iter().try_for_each(|id| self.instance("UpdateInstances", id))
            }
            Command::CreateNamespace(..) => self.check("CreateNamespaces", &[]),
            Command::UpdateNamespace(name, _) => {
                self.check("UpdateNamespaces", &[Resource::namespace(name)])
            }
            Command::DeleteNamespace(name) => {
                self.check("DeleteNamespaces", &[Resource::namespace(name)])
            }
            Command::CreateService(key, _) => self.service("CreateServices", key.borrowed()),
            Command::UpdateService(key, _) => self.service("UpdateServices", key.borrowed()),
            Command::DeleteService(key) => self.service("DeleteServices", key.borrowed()),
            Command::CreateAlias(alias) => {
                self.service("CreateServiceAlias", alias.target.borrowed())?;
                self.service("CreateServiceAlias", alias.key.borrowed())
            }
            Command::UpdateAlias(key, what) => {
                self.alias("UpdateServiceAlias", key)?;
                let target = what.target.as_ref();
                target.map_or(Ok(()), |it| self.service("UpdateServiceAlias", it.borrowed()))
            }
            Command::DeleteAlias(key) => self.alias("DeleteServiceAliases", key),
            Command::CreateRule(new) => {
                self.targets(rule_functions(new.kind)[0], &new.targets, &new.namespace)
            }
            Command::UpdateRule(new) => {
                let function = rule_functions(new.kind)[1];
                self.rule(function, new.kind, &new.id)?;
                let before = self.state.rule(new.kind, &new.id);
                // A rule must not reach further than its editor.
                if before.is_some_and(|rule| rule.targets == new.targets) {
                    return Ok(());
                }
                self.targets(function, &new.targets, &new.namespace)
            }
            Command::DeleteRule(kind, id) => self.rule(rule_functions(*kind)[2], *kind, id),
            Command::EnableRule(kind, id, _) => self.rule(rule_functions(*kind)[3], *kind, id),
            Command::PutContract(new) => self.contract(new),
            Command::DeleteContract(id) => match self.state.contract(id) {
                Some(stored) => self.service("DeleteServiceContracts", stored.service.borrowed()),
                None => self.check("DeleteServiceContracts", &[]),
            },
            Command::Config(_, command) => self.config(command),
            // Users and policies have checks of their own, and transfers are the account's.
            Command::Identity(_) | Command::Put(_) => match self.is_limited() {
                true => Err(Code::NotAllowedAccess),
                false => self.admit(),
            },
        }
    }

    /// Checks the write of a contract: its service, and that of the contract which it replaces.
    fn contract(&self, new: &NewContract) -> Result<(), Code> {
        let function = match self.door {
            Door::Client => "ReportServiceContract",
            Door::Console => "CreateServiceContracts",
        };
        if let Some(stored) = self.state.contract(&new.id) {
            self.service(function, stored.service.borrowed())?;
        }
        self.service(function, new.service.borrowed())
    }

    fn config(&self, command: &ConfigCommand) -> Result<(), Code> {
        let file = |function, key: &ConfigFileKey| self.group(function, &key.namespace, &key.group);
        match command {
            ConfigCommand::CreateGroup(key, _) => {
                self.group("CreateConfigFileGroup", &key.namespace, &key.name)
            }
            ConfigCommand::UpdateGroup(key, _) => {
                self.group("UpdateConfigFileGroup", &key.namespace, &key.name)
            }
            ConfigCommand::DeleteGroup(key) => {
                self.group("DeleteConfigFileGroup", &key.namespace, &key.name)
            }
            ConfigCommand::CreateFile(key, _) => file("CreateConfigFile", key),
            ConfigCommand::UpdateFile(key, _) => file("UpdateConfigFile", key),
            ConfigCommand::DeleteFile(key) => file("DeleteConfigFile", key),
            ConfigCommand::Publish(key, _) => file("PublishConfigFile", key),
            ConfigCommand::WriteAndPublish { key, .. } => file("UpsertAndReleaseConfigFile", key),
            ConfigCommand::Rollback(target) => file("RollbackConfigFileReleases", &target.key),
            ConfigCommand::DeleteRelease(target) => file("DeleteConfigFileReleases", &target.key),
            ConfigCommand::StopGray(key) => file("StopGrayConfigFileReleases", key),
            ConfigCommand::CreateTemplate(_) => self.check("CreateConfigFileTemplate", &[]),
            ConfigCommand::Import(files) if files.is_empty() => {
                self.check("ImportConfigFiles", &[])
            }
            ConfigCommand::Import(files) => {
                files.iter().try_for_each(|(key, _)| file("ImportConfigFiles", key))
            }
        }
    }

    /// Checks a call about an instance, by its service; a missing instance touches nothing.
    pub(crate) fn instance(&self, function: &'static str, id: &str) -> Result<(), Code> {
        match self.state.instance(id).filter(|_| self.is_limited()) {
            Some(instance) => self.service(function, instance.service.borrowed()),
            None => self.check(function, &[]),
        }
    }

    /// Checks a registration: the service, and that of an instance which it replaces.
    fn instance_or_service(
        &self,
        function: &'static str,
        id: &str,
        service: ServiceRef<'_>,
    ) -> Result<(), Code> {
        if let Some(instance) = self.state.instance(id).filter(|_| self.is_limited())
            && instance.service.borrowed() != service
        {
            self.service(function, instance.service.borrowed())?;
        }
        self.service(function, service)
    }

    fn alias(&self, function: &'static str, key: &ServiceKey) -> Result<(), Code> {
        match self.state.alias(key.borrowed()) {
            Some(alias) => self.service(function, alias.target.borrowed()),
            None => self.service(function, key.borrowed()),
        }
    }

    /// Checks a call about a rule: the rule by its id, or all services that it targets.
    fn rule(&self, function: &'static str, kind: RuleKind, id: &str) -> Result<(), Code> {
        if !self.is_limited() {
            return self.check(function, &[]);
        }
        let resource = Resource::by_id(rule_resource(kind), id);
        let Some(rule) = self.state.rule(kind, id) else {
            return self.check(function, &[resource]);
        };
        if self.verdict(function, Some(&[resource])).is_ok() {
            return Ok(());
        }
        if self.is_denied(function, &resource) {
            return self.finish(Err(Code::NotAllowedAccess), function, Some(&resource));
        }
        self.targets(function, &rule.targets, &rule.namespace)
    }

    fn targets(
        &self,
        function: &'static str,
        targets: &[ServiceKey],
        namespace: &str,
    ) -> Result<(), Code> {
        if !self.is_limited() {
            return self.check(function, &[]);
        }
        if targets.is_empty() {
            return self.check(function, &[Resource::namespace(namespace)]);
        }
        targets.iter().try_for_each(|target| self.service(function, target.borrowed()))
    }
}

/// Returns the names of the calls for a kind of rules. Kinds that Polaris has no names for have
/// names of their own, so that a right to route rules does not extend to them.
pub(super) fn rule_functions(kind: RuleKind) -> &'static RuleFunctions {
    macro_rules! functions {
        ($noun:literal) => {
            &[
                concat!("Create", $noun),
                concat!("Update", $noun),
                concat!("Delete", $noun),
                concat!("Enable", $noun),
                concat!("Describe", $noun),
            ]
        };
    }
    match kind {
        RuleKind::RoutingV1 | RuleKind::Routing | RuleKind::NearbyRouting => {
            functions!("RouteRules")
        }
        RuleKind::RateLimit => functions!("RateLimitRules"),
        RuleKind::CircuitBreaker => functions!("CircuitBreakerRules"),
        RuleKind::FaultDetector => functions!("FaultDetectRules"),
        RuleKind::Lane => functions!("LaneGroups"),
        RuleKind::Lossless => functions!("LosslessRules"),
        RuleKind::BlockAllow => functions!("BlockAllowRules"),
        RuleKind::TrafficMirroring => functions!("TrafficMirroringRules"),
        RuleKind::FaultInjection => functions!("FaultInjectionRules"),
    }
}
