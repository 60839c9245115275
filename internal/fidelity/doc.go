// Package fidelity judges whether the results of an emulated run can be trusted.
//
// When an emulation runs out of CPU, loses its shaping or sends flows over wrong paths, its
// figures still look normal. Every run therefore gathers Evidence: before the trials (lone
// transfers, the fabric against its plan), during them (idle windows, timers, queues, sockets)
// and after them (bytes per link, transfers that met no other). Judge turns it into a verdict
// with measured reasons. The package is pure.
package fidelity
