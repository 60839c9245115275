// Package flowworld is the flow world: it carries out a controller's actions with the instance
// model and a fluid network, on a virtual clock.
//
// It is the counterpart of internal/packetworld, with the same drivers and the same engines
// (there inside agents). Instead of TCP over an emulated fabric it uses the max-min shares of
// flowsim on the same plan. It decides nothing. Times and bytes are paper units. Equal inputs
// give exactly equal events. Start reading at world.go.
package flowworld
