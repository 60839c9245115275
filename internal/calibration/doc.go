// Package calibration measures what this host carries, in a scratch fabric made of the
// parts that labs are made of: packet-hops a second and core at the grains that plans
// use, one flow and as many as saturate it, and how late timers are. It takes some eight
// seconds, lives in namespaces of its own and removes them also when it is interrupted.
//
// The result is saved beside the labs' state, with the kernel and CPU that it was
// measured on; one from another kernel or CPU, or an old one, is not used. Start reading
// at measure.go.
package calibration
