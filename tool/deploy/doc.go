// Package deploy has no code of its own. Its tests check the deploy folder with the programs
// that read it (Prometheus, Alertmanager, promtool, kubectl, systemd, nginx), run hone and
// honed with the manifests' arguments, and ask a real Prometheus each query of the
// dashboards that package observe/dashboard generates.
package deploy
