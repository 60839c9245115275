// Package workload makes the requests of a trial: generated from a profile,
// replayed from a trace in Mooncake's JSONL format, or listed as explicit flows.
//
// Everything random about a request is drawn here, once, and is part of the request: arrival,
// lengths, prefix blocks, the tie-break and one path draw per stream. So all policies and both
// worlds have the same draws, and a different decision does not change the draws of later
// requests. Every subsystem has its own seeded stream (see stream), so changing one option does
// not change the draws of the others. The same scenario and seed give the same requests, byte
// for byte, on machines of one architecture. On another, math.Exp may round its last bit
// differently and so change a length by a token.
//
// Times are paper time; nothing here is scaled. The package reads no clock, and no file except
// the given trace or flow file.
//
// Start reading at Generate, then at ReadTrace for the rules of traces.
package workload
