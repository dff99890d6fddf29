//! Requests with `{{…}}`: compiled once, expanded for every request.

use tollhouse_stdx::Random;

use super::{CONTENT_LENGTH, Parts};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::Ticket;
use go_template::{Method, Template, TemplateError, Variables};

/// Templates in the path, headers and body of one request.
#[derive(Debug)]
pub(super) struct Templates {
    path: Template,
    headers: Vec<(String, Template)>,
    body: Template,
    /// gRPC method names for templates; empty for HTTP requests.
    method: Method,
}

impl Templates {
    /// Compiles a request; `None` if it contains no placeholder.
    pub(super) fn compile(parts: &Parts) -> Result<Option<Self>, BenchError> {
        let compile = |key: &str, text: &str| {
            Template::parse(text).map_err(|error: TemplateError| BenchError::Case {
                key: key.to_owned(),
                why: error.to_string(),
            })
        };
        let body = String::from_utf8_lossy(&parts.body);
        let mut headers = Vec::with_capacity(parts.headers.len());
        for (name, value) in &parts.headers {
            headers.push((name.clone(), compile("http.headers", value)?));
        }
        let templates = Self {
            path: compile("http.urls", &parts.path)?,
            headers,
            body: compile("http.body", &body)?,
            method: Method::default(),
        };
        Ok((!templates.is_static()).then_some(templates))
    }

    fn is_static(&self) -> bool {
        let values_are_static = self.headers.iter().all(|(_, value)| value.is_static());
        values_are_static && self.path.is_static() && self.body.is_static()
    }

    /// Expands the templates for one request.
    pub(super) fn fill(
        &self,
        ticket: Ticket,
        lane: &str,
        random: &mut Random,
        into: &mut Parts,
    ) -> Result<(), Failure> {
        let variables = Variables::now(lane, ticket.number, &self.method, random);
        let mut body = String::from_utf8(std::mem::take(&mut into.body)).unwrap_or_default();
        body.clear();
        self.body.render(&variables, random, &mut body).map_err(unfillable)?;
        into.body = body.into_bytes();
        into.path.clear();
        self.path.render(&variables, random, &mut into.path).map_err(unfillable)?;
        into.headers.resize_with(self.headers.len(), Default::default);
        for ((name, template), (into_name, value)) in self.headers.iter().zip(&mut into.headers) {
            into_name.clone_from(name);
            value.clear();
            template.render(&variables, random, value).map_err(unfillable)?;
            if name == CONTENT_LENGTH {
                *value = into.body.len().to_string();
            }
        }
        into.check().map_err(|(_, why)| Failure::new(FailureClass::Write, why))
    }
}

fn unfillable(error: TemplateError) -> Failure {
    Failure::new(FailureClass::Write, error.to_string())
}
