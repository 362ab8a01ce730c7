//! What machines read: JUnit, SARIF, annotations.
