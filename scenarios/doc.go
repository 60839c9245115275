// Package scenarios is the experiment as a user writes it: the YAML format, its defaults, its
// checks, its JSON Schema, and the library of ready files that netkvlab ships.
//
// What it promises:
//
//   - Load and Parse give a Scenario with every default written out; no other
//     package fills in values. Parse(Marshal(s)) equals s.
//   - A file is accepted only when every key is known, every value has its unit
//     and range, and the parts fit together. All faults of a file are reported
//     at once, each as an *Error that names file, line, key and what to do.
//   - Quantities are exact: 3.125GB/s is 25000000000 bits per second, never a
//     rounded float. A number without a unit is refused, not guessed.
//   - Pure: apart from Load, which reads one file, no function makes a
//     system call, and no input causes a panic.
//
// A key's type, range, allowed values and meaning are defined once, on the fields
// of Scenario: as Go types, as the tags range, enum, pattern, items, auto, unit
// and bare, and as doc comments. The decoder (decode.go), the checks
// (validate.go), Schema and the reference page all use these (fields.go).
//
// Start reading at Scenario, then defaults.go and presets.go for what a file
// may leave out, and validate.go for what must fit together.
package scenarios

//go:generate go test -run TestReferencePageIsCurrent -update .
