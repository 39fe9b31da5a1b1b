package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/spec"
)

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Example: `  source <(hone completion bash)                                 this shell only
  hone completion zsh > "${fpath[1]}/_hone"                      from the next zsh on
  hone completion fish > ~/.config/fish/completions/hone.fish    from the next fish on
  hone completion powershell | Out-String | Invoke-Expression    this shell only`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("completion: name one shell, as in: hone completion bash")
			}
			if err := (&spec.Choice{Of: shells}).Set(args[0]); err != nil {
				return exit.Usagef("completion: %q is %w", args[0], err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			scripts := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}
			return exit.FailedIf(scripts[args[0]](cmd.OutOrStdout()))
		},
	}
}
