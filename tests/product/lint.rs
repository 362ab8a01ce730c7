//! Lint: parsing of files, the table of accepted forms against the committed matrix, the command with a fake ptxas.

#[cfg(test)]
mod command;
#[cfg(test)]
mod dumps;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod gates;
