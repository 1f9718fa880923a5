package providertest

var setupChecks, queueChecks, endChecks, poolChecks, detachChecks, driveChecks, loadChecks []check
