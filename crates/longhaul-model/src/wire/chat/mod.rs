//! OpenAI Chat Completions, as OpenAI defined it and as the many compatible servers speak it. It owns that protocol's
//! shapes in both directions, and the tolerance their variety needs.

mod plain;
mod reply;
mod request;
mod stream;

pub use plain::plain;
pub use request::encode;
pub use stream::Assembler;
