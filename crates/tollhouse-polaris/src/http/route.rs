//! Routes with their methods, so that the manual lists what the router serves.

use super::HttpApi;
use axum::Router;
use axum::handler::Handler;
use axum::routing::MethodRouter;

/// Handlers of one path by method.
#[derive(Debug)]
pub(super) struct Route {
    methods: Vec<&'static str>,
    handlers: MethodRouter<HttpApi>,
}

/// Paths with their handlers, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Routes(Vec<(String, Route)>);

macro_rules! methods {
    ($($function:ident $name:literal),*) => {$(
        pub(super) fn $function<H: Handler<T, HttpApi>, T: 'static>(handler: H) -> Route {
            Route { methods: vec![$name], handlers: axum::routing::$function(handler) }
        }
    )*};
}

methods!(get "GET", post "POST", put "PUT", delete "DELETE");

impl Route {
    /// Adds the methods of another route.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.methods.extend(other.methods);
        self.handlers = self.handlers.merge(other.handlers);
        self
    }
}

impl Routes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn route(mut self, path: &str, route: Route) -> Self {
        self.0.push((path.to_owned(), route));
        self
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Iterates over the methods and paths.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().flat_map(|(path, route)| {
            route.methods.iter().map(move |method| (*method, path.as_str()))
        })
    }

    pub(super) fn into_router(self) -> Router<HttpApi> {
        let routes = self.0.into_iter();
        routes.fold(Router::new(), |router, (path, route)| router.route(&path, route.handlers))
    }
}
