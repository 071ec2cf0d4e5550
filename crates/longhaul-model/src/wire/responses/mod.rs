//! OpenAI Responses, used without state on the server: every request carries the whole conversation, and reasoning
//! comes back to us encrypted. It owns that protocol's shapes in both directions.

mod plain;
mod reply;
mod request;
mod stream;

pub use plain::plain;
pub use request::encode;
pub use stream::Assembler;
