// Package flowworld is the flow world: it carries out a controller's actions by
// the instance model and a fluid network, on a virtual clock.
//
// It is the counterpart of internal/packet: the same drivers, the same engines
// (there inside agents), and instead of TCP over an emulated fabric the max-min shares
// of flowsim on the same plan. It decides nothing. Times and bytes are paper units;
// a given input gives the same events bit for bit. Start reading at world.go.
package flowworld
