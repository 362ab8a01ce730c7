//! Lint: files taken apart, the table of accepted forms held to the committed matrix, the command with a fake ptxas and with real ones.

#[cfg(test)]
#[path = "lint/command.rs"]
mod command;
#[cfg(test)]
#[path = "lint/dumps.rs"]
mod dumps;
#[cfg(test)]
#[path = "lint/forms.rs"]
mod forms;
#[cfg(test)]
#[path = "lint/gates.rs"]
mod gates;
#[cfg(test)]
#[path = "lint/known.rs"]
mod known;
