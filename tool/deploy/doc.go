// Package deploy tests the folder deploy, and has nothing else. The tests check the files with the programs
// that read them (Prometheus, Alertmanager, promtool, kubectl, systemd, nginx), run hone and
// honed with the manifests' arguments, and ask a real Prometheus each query of the
// dashboards that package observe/dashboard generates.
package deploy
