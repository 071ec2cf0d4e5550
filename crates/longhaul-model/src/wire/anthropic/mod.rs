//! Anthropic Messages. It owns that protocol's shapes in both directions, and the places of its cache markers; nothing
//! outside this folder knows a content block.

mod plain;
mod reply;
mod request;
mod stream;

pub use plain::plain;
pub use request::encode;
pub use stream::Assembler;
