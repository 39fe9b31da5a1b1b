//go:build !linux

package record

func platformRoles() map[string]func(string) error { return nil }
