package host

import "golang.org/x/sys/unix"

// usableCPUs says of a CPU whether this process may run on it. A host that does not say
// allows all.
func usableCPUs() func(cpu int64) bool {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return func(int64) bool { return true }
	}
	return func(cpu int64) bool { return set.IsSet(int(cpu)) }
}
