//! Cases with a known answer, put to the real toolkits of this machine; without one they say so and pass.
//!
//! `SM121PROBE_REQUIRE=toolkit:12.9,toolkit:13.5` makes a missing toolkit a failure.
