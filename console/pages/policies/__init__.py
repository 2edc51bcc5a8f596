"""The pages of policies: every version, the editor of a draft with its dry run, one version and the act that puts it in force."""
