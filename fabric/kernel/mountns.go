package kernel

import (
	"errors"
	"path/filepath"
	"strings"
)

// errPrivateMounts means that other programs would not see a lab.
var errPrivateMounts = errors.New("this process has mounts of its own (as under unshare -m, ip netns exec, or a service with private mounts), " +
	"and names of namespaces are mounts: no other program would find the lab's; " +
	"use the host's mounts, as in `nsenter --mount=/proc/1/ns/mnt netkvlab up SCENARIO`")

// mountPoint is a mount as in a line of mountinfo (proc(5)).
type mountPoint struct {
	id     string // names the mount for good, also across mount namespaces
	path   string
	shared string // the peer group that sees what is mounted in it; empty: none does
}

// mountPoints reads the text of a mountinfo file.
func mountPoints(info string) (all []mountPoint) {
	for line := range strings.Lines(info) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		m := mountPoint{id: f[0], path: f[4]}
		for _, optional := range f[6:] {
			if optional == "-" {
				break
			}
			if group, ok := strings.CutPrefix(optional, "shared:"); ok {
				m.shared = group
			}
		}
		all = append(all, m)
	}
	return all
}

// mountOf is the mount that contains a folder: the last of several at one path.
func mountOf(all []mountPoint, folder string) (found mountPoint, ok bool) {
	for _, m := range all {
		inside := m.path == folder || m.path == "/" || strings.HasPrefix(folder, m.path+"/")
		if inside && len(m.path) >= len(found.path) {
			found, ok = m, true
		}
	}
	return found, ok
}

// visible reports whether one process sees what another mounts in NetnsDir. By their
// mountinfo, they must have the same mount there, or two mounts of one peer group.
func visible(own, other string) bool {
	mine, ok := mountOf(mountPoints(own), filepath.Clean(NetnsDir))
	if !ok {
		return true // the root folder is not a mount, so this is unknown
	}
	for _, m := range mountPoints(other) {
		if m.id == mine.id || m.shared != "" && m.shared == mine.shared {
			return true
		}
	}
	return false
}
