//! Models asked: found once, told what a turn is, and asked again with another key where the first was refused.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use longhaul_core::conversation::{Message, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, Usage};
use longhaul_core::event::Aside;
use longhaul_core::ids::Attempt;
use longhaul_core::input::Input;
use longhaul_model::{Deltas, Model, Models, Quiet, ResolveError};
use longhaul_tools::Cancel;

use crate::perform::{micros, panic_text};
use crate::secrets::Secrets;

/// The models one run uses, by name, each made once.
pub struct Shelf {
    models: Arc<Models>,
    made: Mutex<HashMap<String, Arc<dyn Model>>>,
    /// Tokens that a request has without its conversation, for models that do not say what they read.
    uncounted: Mutex<HashMap<String, u64>>,
    /// Learns the keys that models are made with.
    secrets: Secrets,
}

impl Shelf {
    pub fn new(models: Arc<Models>, secrets: Secrets) -> Shelf {
        Shelf { models, made: Mutex::default(), uncounted: Mutex::default(), secrets }
    }

    /// One that is there already, for doubles.
    #[must_use]
    pub fn with(self, name: &str, model: Arc<dyn Model>) -> Shelf {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), model);
        self
    }

    /// The model made anew, if it now has another key: the old one may have expired.
    fn renewed(&self, name: &str, old: &dyn Model) -> Option<Arc<dyn Model>> {
        self.models.forget_keys();
        let model = self.resolve(name).ok()?;
        if model.account() == old.account() {
            return None;
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(name.to_owned(), Arc::clone(&model));
        Some(model)
    }

    /// Tokens that a request has beside its conversation: instructions and tools. The provider counts them where it has a
    /// question for that, else they are estimated; once for each model, because they hardly change.
    async fn beside_conversation(&self, model: &dyn Model, request: &ModelRequest) -> u64 {
        let name = &*request.model;
        let known = || self.uncounted.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        if let Some(tokens) = known() {
            return tokens;
        }
        let messages = Arc::new(vec![Message::User { text: ".".to_owned() }]);
        let tokens = model.count(&ModelRequest { messages, ..request.clone() }).await;
        self.uncounted.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), tokens);
        tokens
    }

    /// One that was made before. Asked for in every turn, so it waits for nothing: not even for another that is being made.
    fn at_hand(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.made.try_lock().ok()?.get(name).map(Arc::clone)
    }

    pub fn get(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(name) {
            return Ok(Arc::clone(model));
        }
        let model = self.resolve(name)?;
        made.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    /// Before the model is used, its key is known as something that must not be written.
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let model = self.models.resolve(name);
        self.secrets.learn(self.models.secrets());
        model
    }
}

pub(crate) async fn call_model(
    models: Arc<Shelf>,
    deltas: Arc<dyn Deltas>,
    turn: u32,
    attempt: Attempt,
    request: ModelRequest,
    cancel: Cancel,
) -> Option<Input> {
    let started = Instant::now();
    let asking = AssertUnwindSafe(ask_model(models, request, deltas.as_ref())).catch_unwind();
    let answer = tokio::select! {
        answer = asking => answer,
        // Nothing of a half-heard answer is kept; the turn is asked again when the run goes on.
        () = cancel.cancelled() => return None,
    };
    let failed = |failure| Some(Input::ModelFailed { turn, attempt, failure });
    match answer {
        Ok(Ok(reply)) => Some(Input::ModelReplied { turn, attempt, reply, duration_us: micros(started) }),
        Ok(Err(failure)) => failed(failure),
        Err(panic) => {
            let message = format!("the model's client panicked: {}", panic_text(panic.as_ref()));
            // What it panicked at may be the one odd reply of a night: a person looks, and nothing is lost.
            failed(ModelFailure::new(ModelFailureKind::Rejected, message))
        }
    }
}

/// Asks once, and once more if the key was refused and there is a new one.
async fn ask_model(
    models: Arc<Shelf>,
    request: ModelRequest,
    deltas: &dyn Deltas,
) -> Result<ModelReply, ModelFailure> {
    let name = request.model.to_string();
    let model = match models.at_hand(&name) {
        Some(model) => model,
        None => off_the_loop(&models, &name, |models, name| models.get(name))
            .await?
            .map_err(|error| no_model(&error))?,
    };
    let refused = match heard(&models, &*model, request.clone(), deltas).await {
        Err(failure) if failure.kind == ModelFailureKind::Credentials => failure,
        answer => return answer,
    };
    let old = Arc::clone(&model);
    let renewed =
        off_the_loop(&models, &name, move |models, name| models.renewed(name, old.as_ref())).await?;
    match renewed {
        Some(model) => heard(&models, &*model, request, deltas).await,
        None => Err(refused),
    }
}

/// Asks, and says with the answer how much fits into the model's window.
async fn heard(
    models: &Shelf,
    model: &dyn Model,
    request: ModelRequest,
    deltas: &dyn Deltas,
) -> Result<ModelReply, ModelFailure> {
    let reply = model.call(request.clone(), deltas).await?;
    // What the reply may take is no room for the question; but a small window is not given away.
    let window = model.context_window();
    let mut room = window - model.reply_room().min(window / 2);
    let Usage { input_tokens, cache_read_tokens, cache_write_tokens, estimated_tokens, .. } = reply.usage;
    let uncounted = input_tokens == 0 && cache_read_tokens == 0 && cache_write_tokens == 0;
    if uncounted || estimated_tokens > 0 {
        // Nobody will count what instructions and tools take of it, so that is taken off here.
        room -= models.beside_conversation(model, &request).await.min(room / 2);
    }
    Ok(ModelReply { window: Some(room), ..reply })
}

/// Finding a key may mean waiting for a command; the run goes on hearing what is asked of it meanwhile.
async fn off_the_loop<T: Send + 'static>(
    models: &Arc<Shelf>,
    name: &str,
    work: impl FnOnce(&Shelf, &str) -> T + Send + 'static,
) -> Result<T, ModelFailure> {
    let (models, name) = (Arc::clone(models), name.to_owned());
    let done = tokio::task::spawn_blocking(move || work(&models, &name)).await;
    done.map_err(|error| {
        ModelFailure::new(ModelFailureKind::Rejected, format!("the model cannot be found: {error}"))
    })
}

/// Asks once, silently: nobody waits for these words.
pub(crate) async fn ask_aside(
    models: Arc<Shelf>,
    aside: Aside,
    attempt: Attempt,
    request: ModelRequest,
    cancel: Cancel,
) -> Option<Input> {
    let asking = AssertUnwindSafe(ask_model(models, request, &Quiet)).catch_unwind();
    let answer = tokio::select! {
        answer = asking => answer,
        () = cancel.cancelled() => return None,
    };
    let answer = answer.unwrap_or_else(|panic| {
        let message = format!("the model's client panicked: {}", panic_text(panic.as_ref()));
        Err(ModelFailure::new(ModelFailureKind::Rejected, message))
    });
    Some(Input::AsideEnded { aside, attempt, answer })
}

/// A model that was there when the run began and cannot be had any more: its key, its script or its settings are gone.
fn no_model(error: &ResolveError) -> ModelFailure {
    let kind = match error {
        ResolveError::Key(_) => ModelFailureKind::Credentials,
        ResolveError::BadName { .. }
        | ResolveError::UnknownProvider { .. }
        | ResolveError::Untrusted { .. }
        | ResolveError::NoApi { .. }
        | ResolveError::NoBaseUrl { .. }
        | ResolveError::Price { .. }
        | ResolveError::NoNetwork { .. }
        | ResolveError::Wire { .. }
        | ResolveError::Script(_) => ModelFailureKind::ModelUnknown,
    };
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    ModelFailure::new(kind, format!("{error}{hint}"))
}
