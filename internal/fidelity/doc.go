// Package fidelity judges whether an emulated run deserves belief.
//
// An emulation that silently ran out of CPU, lost its shaping or sent its flows
// another way gives figures that look like any other's. Every run gathers Evidence
// before (lone transfers, the fabric against its plan), during (idle windows, timers,
// queues, sockets) and after (bytes by link, transfers that met nobody), and Judge turns
// it into a verdict with the measured reason. The package is pure.
package fidelity
