//! Durable memory: journals, catalogue, blobs and inboxes.
