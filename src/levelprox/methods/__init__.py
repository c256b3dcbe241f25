"""The methods: LCPP, working sets, continuation, path following, and the subsolvers."""
