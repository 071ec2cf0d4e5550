//! Telling a running call to stop.
//!
//! Owns a switch and the cheap view of it that calls carry. Refuses to go back: a switch thrown stays thrown.

use tokio::sync::watch;

/// Throws the switch; held by whoever may stop the call.
#[derive(Clone, Debug)]
pub struct CancelSwitch(watch::Sender<bool>);

/// Sees the switch; carried by the call.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<bool>);

impl Cancel {
    pub fn new() -> (CancelSwitch, Cancel) {
        let (sender, receiver) = watch::channel(false);
        (CancelSwitch(sender), Cancel(receiver))
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the switch is thrown. A switch that is dropped was never thrown: then this waits for ever.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|thrown| *thrown).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl CancelSwitch {
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
