//go:build !linux

package lab

import "errors"

// CongestionControl fails: labs need Linux.
func CongestionControl(string) error {
	return errors.New("labs run on Linux only; `netkvlab sim` runs here")
}

func everybodys(string) bool { return true }
