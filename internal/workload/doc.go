// Package workload makes the requests of a trial: generated from a profile,
// replayed from a trace in Mooncake's JSONL format, or listed as explicit flows.
//
// Everything random about a request is drawn here, once, and travels with it:
// arrival, lengths, prefix blocks, the tie-break and one path draw a stream. So
// all policies and both worlds meet the same luck, and a decision that differs
// does not shift the draws of later requests. Every subsystem has a seeded
// stream of its own (see stream): turning one knob leaves the others' draws
// alone. The same scenario and seed give the same requests, byte for byte, on
// machines of one architecture; on another, math.Exp may round its last bit
// differently and so move a length by a token.
//
// Times are paper time; nothing here is scaled. The package reads no clock and,
// beside the trace or flow file it is given, no file.
//
// Start reading at Generate, then ReadTrace for the rules a trace is read by.
package workload
