package host

import "golang.org/x/sys/unix"

// usableCPUs returns a function that reports whether this process may run on a CPU. If the host
// does not report it, all are allowed.
func usableCPUs() func(cpu int64) bool {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return func(int64) bool { return true }
	}
	return func(cpu int64) bool { return set.IsSet(int(cpu)) }
}
